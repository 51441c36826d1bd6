"""OpenFHE itself, as the project uses it: CKKS at 128-bit security, in this process."""

import numpy as np
import pytest

pytestmark = pytest.mark.ckks


def test_product_of_encrypted_vectors_agrees_with_numpy() -> None:
    import openfhe

    slots = 8
    parameters = openfhe.CCParamsCKKSRNS()
    parameters.SetSecurityLevel(openfhe.SecurityLevel.HEStd_128_classic)
    parameters.SetScalingTechnique(openfhe.ScalingTechnique.FLEXIBLEAUTO)
    parameters.SetMultiplicativeDepth(1)
    parameters.SetScalingModSize(50)
    parameters.SetBatchSize(slots)
    context = openfhe.GenCryptoContext(parameters)
    for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE"):
        context.Enable(getattr(openfhe.PKESchemeFeature, feature))
    keys = context.KeyGen()
    context.EvalMultKeyGen(keys.secretKey)

    x, y = np.random.default_rng(0).uniform(-1, 1, size=(2, slots))
    encrypted_x, encrypted_y = (
        context.Encrypt(keys.publicKey, context.MakeCKKSPackedPlaintext(list(vector)))
        for vector in (x, y)
    )
    product = context.Decrypt(context.EvalMult(encrypted_x, encrypted_y), keys.secretKey)
    product.SetLength(slots)

    np.testing.assert_allclose(product.GetRealPackedValue(), x * y, rtol=0, atol=1e-6)

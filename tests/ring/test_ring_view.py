"""The views of the parties: the server reads nothing, the opener sees uniform numbers."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.stats import kstest

from helba.errors import EngineError
from helba.ring.secret import make_keys
from helba.ring.wire import dump_ciphertext, dump_key, load_ciphertext, load_opening
from tests.reference.engine.processes import run_module
from tests.ring.parties import make_parties

# Kolmogorov and Smirnov's statistic times sqrt(n): above 2.8 with probability 3e-7
ALARM = 2.8


def opener_view(parties, values, *, count, primes=1):
    """The opener's shares of many openings of one ciphertext, as numbers in [0, 1)."""
    places = np.arange(len(values))
    made = parties.ring.encrypt(values, places=places, scale=1.0, peak=2.0**50, primes=primes)
    seen = []
    for _ in range(count):
        opening, _ = parties.ring.open(made, places=places)
        share = parties.opener.receive(opening, places=places)
        modulus = parties.parameters.modulus(primes)
        seen += [int(each) % modulus / modulus for each in share.integers()]
    return np.array(seen)


@pytest.mark.parametrize("primes", [1, 2])
def test_opener_sees_uniform_numbers(parties, primes):
    values = np.full(100, 2**49)
    seen = opener_view(parties, values, count=20, primes=primes)
    assert kstest(seen, "uniform").statistic * np.sqrt(len(seen)) < ALARM
    # the view of another message comes from the same distribution
    other = opener_view(parties, -values, count=20, primes=primes)
    assert kstest(seen, other).statistic * np.sqrt(len(seen) / 2) < ALARM


def test_opener_would_see_the_value_without_the_mask(parties, monkeypatch):
    monkeypatch.setattr(
        "helba.ring.ring.draw_residues",
        lambda moduli, count, **_: np.zeros((len(moduli), count), dtype=np.uint64),
    )
    seen = opener_view(parties, np.full(100, 2**49), count=2)
    assert kstest(seen, "uniform").statistic * np.sqrt(len(seen)) > ALARM


def test_opener_would_see_the_value_under_a_short_mask(parties, monkeypatch):
    def draw(moduli, count, draw):  # noqa: ARG001  # half of the residues only
        rng = np.random.default_rng()
        return np.stack([rng.integers(0, q // 2, count, dtype=np.uint64) for q in moduli])

    monkeypatch.setattr("helba.ring.ring.draw_residues", draw)
    seen = opener_view(parties, np.full(100, 2**49), count=20)
    assert kstest(seen, "uniform").statistic * np.sqrt(len(seen)) > ALARM


@pytest.mark.ckks
def test_second_polynomial_of_an_opening_is_not_the_ciphertexts(monkeypatch):
    parties = make_parties("openfhe")
    made = parties.ring.encrypt([1], places=[0], scale=1.0, peak=2.0, primes=1)
    everywhere = parties.everywhere
    _, known = parties.keys.public.backend.split(made.body, everywhere, primes=1)
    first, again = (parties.ring.open(made, places=[0])[0] for _ in range(2))
    modulus = parties.parameters.moduli[0]
    for one, other in ((first.second, known), (first.second, again.second)):
        assert not (one == other).any()  # 512 residues of 55 bits: by chance 1e-14
        difference = ((one[0].astype(object) - other[0].astype(object)) % modulus) / modulus
        statistic = kstest(difference.astype(float), "uniform").statistic
        assert statistic * np.sqrt(len(everywhere)) < ALARM
    # without the fresh encryption of zero it is the ciphertext's own
    monkeypatch.setattr(
        parties.keys.public.backend,
        "encrypt_zero",
        lambda _public, *, primes: parties.keys.public.backend._nothing[primes],
    )
    parties.keys.public.backend._nothing[1].SetKeyTag(parties.keys.public.key_id.hex())
    bare, _ = parties.ring.open(made, places=[0])
    assert np.array_equal(bare.second, known)


@pytest.mark.ckks
def test_server_process_computes_and_cannot_read(tmp_path):
    parties = make_parties("openfhe")
    keys, backend = parties.keys, parties.keys.public.backend
    values = np.array([3 << 45, 5 << 45])
    made = parties.ring.encrypt(values, places=[0, 1], scale=1.0, peak=2.0**48, primes=2)
    (tmp_path / "public").write_bytes(dump_key(keys.public))
    (tmp_path / "evaluation").write_bytes(dump_key(keys.evaluation))
    (tmp_path / "ciphertext").write_bytes(dump_ciphertext(made, backend=backend))

    found = run_module("tests.ring.serving", str(tmp_path))

    product = load_ciphertext((tmp_path / "product").read_bytes(), public_key=keys.public)
    exact = [9.0 * 2**90, 30.0 * 2**90, 25.0 * 2**90]
    read = parties.read(product, [0, 1, 2])
    assert np.allclose(
        read.astype(float), np.array(exact) / parties.parameters.moduli[1], rtol=1e-9
    )
    opening = load_opening(
        (tmp_path / "opening").read_bytes(),
        backend=backend,
        key_id=keys.public.key_id,
        count=2,
    )
    parties.opener.receive(opening, places=[0, 1])
    assert found["secret_keys"] == 0
    attempts = found["attempts"]
    for name in ("public", "evaluation", "ciphertext"):
        assert attempts[name] == "DamagedData"
    assert attempts["own key"] == "WrongVector"
    # 104 bits of noise: that all four are within 2^60 of a small number has probability 2^-160
    garbage = [int(each) for each in attempts["own key, forged name"]]
    assert any(abs(each) > 2**60 for each in garbage)


@pytest.mark.ckks
def test_two_processes_never_share_randomness():
    one, other = (run_module("tests.ring.drawing") for _ in range(2))
    assert all(one[name] != other[name] for name in one)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.ckks
@pytest.mark.parametrize("what", ["encrypt", "make keys", "open"])
def test_forked_process_may_not_use_openfhes_randomness(what):
    parties = make_parties("openfhe")
    made = parties.ring.encrypt([1], places=[0], scale=1.0, peak=1.0, primes=1)
    actions = {
        "encrypt": lambda: parties.ring.encrypt([1], places=[0], scale=1.0, peak=1.0),
        "make keys": lambda: make_keys(parties.parameters),
        "open": lambda: parties.ring.open(made, places=[0]),
    }
    child = os.fork()
    if child == 0:
        try:
            actions[what]()
        except EngineError:
            os._exit(7)
        finally:  # nothing of pytest may go on in the child
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

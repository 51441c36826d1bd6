"""The public surface of the package."""

import helba


def test_public_names_are_these():
    assert helba.__all__ == [
        "ALGORITHMS",
        "PROBLEMS",
        "Client",
        "EncryptedBandit",
        "HelbaError",
        "InvalidInput",
        "Policy",
        "Problem",
        "Round",
        "RunFailed",
        "Settings",
        "__version__",
        "make_policy",
        "make_problem",
        "run_policy",
        "settings_for",
    ]
    assert all(hasattr(helba, name) for name in helba.__all__)

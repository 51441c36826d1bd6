"""The public names of the package."""

import inspect
import textwrap

import numpy as np

import helba.garbling


def test_public_names_are_these():
    assert helba.garbling.__all__ == [
        "Circuit",
        "ClearEvaluatorSession",
        "ClearGarblerSession",
        "EvaluatorSession",
        "Garbled",
        "GarblerSession",
        "ReturnedMessage",
        "SetupAnswer",
        "SetupOffer",
        "ShareRange",
        "TablesMessage",
        "TransferMessage",
        "build_argmax",
        "build_ranges_check",
        "build_report_check",
        "combine",
        "name_bits",
        "predict_sizes",
        "read_indices",
    ]
    assert all(hasattr(helba.garbling, name) for name in helba.garbling.__all__)


def test_example_of_the_package_runs():
    text = inspect.getdoc(helba.garbling)
    start, end = text.index("    garbler, evaluator ="), text.index("Labels have 128 bits")
    names = {name: getattr(helba.garbling, name) for name in helba.garbling.__all__}
    names["masks"] = np.array([[7, 2**40 - 1]], dtype=np.uint64)
    names["opened"] = np.array([[2, 3]], dtype=np.uint64)  # values -5 and 4
    exec(textwrap.dedent(text[start:end]), names)
    assert names["arms"].tolist() == [1]

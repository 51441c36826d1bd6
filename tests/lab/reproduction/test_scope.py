from __future__ import annotations

import pytest
from typer.main import get_command

from helba.errors import InvalidInput
from helba.lab.command import paper
from helba.lab.reproduction.catalogue import SECTIONS, choose_chapters
from helba.lab.reproduction.scope import Scope, ciphertext_repetitions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed"),
        ({"repetitions": 0}, "repetitions"),
        ({"horizon": 1}, "horizon"),
        ({"encrypted_repetitions": 26}, "encrypted must be at most the 25 repetitions"),
        ({"encrypted_repetitions": -1}, "encrypted"),
        ({"engine": "plain"}, "engine must be one of ckks, simulate"),
    ],
)
def test_scope_refuses_what_cannot_be_played(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Scope(**changes)


def test_quick_scope_spares_ciphertexts_and_keeps_repetitions():
    quick, full = Scope(quick=True, encrypted_repetitions=1), Scope()
    assert quick.repetitions == full.repetitions == 25
    assert (full.kappa_rounds, full.sqrt_repetitions, full.sqrt_sample_rounds) == (130, 1, 0)
    assert quick.kappa_rounds < 130
    assert (quick.sqrt_repetitions, quick.sqrt_sample_rounds) == (0, 3)


def test_repetitions_on_ciphertexts_are_never_more_than_all():
    assert ciphertext_repetitions(quick=False, repetitions=25) == 2
    assert ciphertext_repetitions(quick=True, repetitions=25) == 1
    assert ciphertext_repetitions(quick=False, repetitions=1) == 1


def test_command_line_offers_every_section():
    assert tuple(paper.SECTIONS) == SECTIONS


FIELDS = {"encrypted": "encrypted_repetitions"}
OTHER = {"seed": 5, "repetitions": 20, "horizon": 77, "encrypted": 0, "engine": "simulate"}


@pytest.mark.parametrize("name", SECTIONS)
def test_section_has_the_options_that_it_reads_and_no_others(name):
    chapter = choose_chapters([name])[name]

    def plan(**changes):
        return [(unit.name, unit.arguments) for unit in chapter.units(Scope(**changes))]

    read = {
        option
        for option, value in OTHER.items()
        for quick in (False, True)
        if plan(quick=quick, **{FIELDS.get(option, option): value}) != plan(quick=quick)
    }
    command = get_command(paper.app).commands[name]
    assert {each.name for each in command.params} & set(OTHER) == read
    assert {each.name for each in get_command(paper.app).commands["all"].params} >= set(OTHER)


def test_unknown_section_is_refused():
    with pytest.raises(InvalidInput, match="section must be one of figure1, figure2"):
        choose_chapters(["figure3"])

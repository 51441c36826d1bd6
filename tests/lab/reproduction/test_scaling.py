import pytest

from helba.lab.reproduction.cost import fit_exponent
from helba.lab.reproduction.part import scaling
from helba.lab.reproduction.scope import Scope
from tests.lab.reproduction.section_work import (
    TINY,
    assert_tables_are_on_disk,
    do_units,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "QUICK_DIMS", (2, 4, 8))
        patch.setattr(scaling, "QUICK_ARMS", (2, 4, 8))
        patch.setattr(scaling, "QUICK_ROUNDS", 2)
        patch.setattr(scaling, "QUICK_BASE_ROUNDS", 8)
        patch.setattr(scaling, "QUICK_HORIZONS", (16, 32, 64))
        results = do_units(scaling)
        section = scaling.assemble(results, scope=TINY, folder=folder)
    return results, section, folder


def test_scaling_covers_the_sizes_it_promises():
    sizes = {
        (unit.arguments["dim"], unit.arguments["arms"])
        for unit in scaling.units(Scope())
        if "engine" in unit.arguments
    }
    assert {dim for dim, arms in sizes if arms == 4} == {2, 4, 8, 16, 32}
    assert {arms for dim, arms in sizes if dim == 4} == {2, 4, 8, 16, 32, 64}


def test_scaling_tables_and_curves_are_on_disk(made):
    _, section, folder = made
    assert_tables_are_on_disk(section, folder=folder)


def test_scaling_has_an_exponent_with_error_for_every_quantity(made):
    _, section, _ = made
    laws = section.tables[1]
    assert [row[0].rpartition(" ~ ")[2] for row in laws.rows] == ["d^a"] * 5 + ["K^a"] * 5 + [
        "T^a"
    ] * 2
    for row in laws.rows:
        slope, error = row[1], row[2]
        assert slope is not None
        assert error is not None
        assert row[4] == 3


def test_scaling_exponent_is_the_slope_of_the_table_beside_it(made):
    _, section, _ = made
    sizes, laws = section.tables[0], section.tables[1]
    place = sizes.columns.index("bytes up a round")
    points = [(row[0], row[place]) for row in sizes.rows if row[1] == 4]
    law = fit_exponent([x for x, _ in points], [y for _, y in points])
    found = next(row for row in laws.rows if row[0] == "bytes up a round ~ d^a")
    assert found[1] == pytest.approx(law.slope)


def test_scaling_says_which_costs_are_computed(made):
    _, section, _ = made
    how = [(row[0], row[-1]) for row in section.tables[2].rows]
    assert [horizon for horizon, way in how if way == "computed"] == [16, 32, 64]
    assert [horizon for horizon, way in how if way != "computed"] == [4, 8]
    assert all("nothing was encrypted" in way for _, way in how if way != "computed")


def test_scaling_measures_updates_of_every_size(made):
    _, section, _ = made
    table = section.tables[0]
    assert all(row[table.columns.index("updates")] >= 1 for row in table.rows)
    assert all(row[table.columns.index("agreement with the twin")] == 1.0 for row in table.rows)

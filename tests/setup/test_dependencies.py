"""What an installation pulls: a light core, and extras that match roles."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helba.extras import EXTRAS
from tests.setup.test_locks import PROJECT, resolve_extra

SOURCE = Path(__file__).resolve().parents[2] / "src" / "helba"

# Packages that are called otherwise than the module that is imported.
PACKAGES = {"nacl": "pynacl", "sklearn": "scikit-learn"}

CORE = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
NOT_LIGHT = {"matplotlib", "scikit-learn", "fastapi", "sqlalchemy", "uvicorn", "openfhe", "psycopg"}


def names_of_extra(extra: str) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in resolve_extra(extra)}


def package_of(module: str) -> str:
    return str(canonicalize_name(PACKAGES.get(module, module)))


def statements_of(path: Path, *, nested: bool) -> Iterator[ast.stmt]:
    """The statements that run when the module is loaded, or with `nested` all of them."""
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left += node.orelse
            continue
        if isinstance(node, ast.stmt):
            yield node
        if nested or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            left += ast.iter_child_nodes(node)


def packages_of(path: Path, *, nested: bool = False) -> set[str]:
    """The packages of others that a module imports."""
    modules: set[str] = set()
    for node in statements_of(path, nested=nested):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(node.module or "")
    roots = {module.partition(".")[0] for module in modules}
    return {package_of(root) for root in roots - sys.stdlib_module_names - {"helba"}}


def role_of(path: Path) -> str:
    """Core, service, or ckks: which dependencies the module may rely on when it is loaded."""
    where = path.relative_to(SOURCE).as_posix()
    if where.startswith("service/"):
        return "service"
    return "ckks" if "/ckks/" in where else "core"


def test_core_is_light() -> None:
    assert not CORE & NOT_LIGHT


@pytest.mark.parametrize("role", ["core", "service", "ckks"])
def test_modules_load_with_the_packages_of_their_role(role: str) -> None:
    allowed = CORE if role == "core" else CORE | names_of_extra(role)
    foreign = {
        path.relative_to(SOURCE).as_posix(): found
        for path in SOURCE.rglob("*.py")
        if role_of(path) == role and (found := packages_of(path) - allowed)
    }
    assert not foreign


def test_every_import_is_of_a_declared_package() -> None:
    declared = CORE.union(*map(names_of_extra, ("lab", "service", "postgres", "ckks")))
    used = {name for path in SOURCE.rglob("*.py") for name in packages_of(path, nested=True)}
    assert not used - declared
    assert not CORE - used


def test_walk_finds_an_import_at_the_top_and_one_in_a_function(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import json\nimport sklearn.datasets\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "def draw():\n    from matplotlib import figure\n"
    )
    assert packages_of(path) == {"scikit-learn"}
    assert packages_of(path, nested=True) == {"scikit-learn", "matplotlib"}


@pytest.mark.parametrize("extra", list(EXTRAS))
def test_extra_holds_what_the_code_says_it_does(extra: str) -> None:
    below = names_of_extra("service") if extra == "postgres" else set()
    assert {package_of(module) for module in EXTRAS[extra]} == names_of_extra(extra) - below


def test_tests_are_installed_with_what_every_role_needs() -> None:
    dev = names_of_extra("dev")
    assert names_of_extra("lab") | names_of_extra("service") | names_of_extra("postgres") <= dev

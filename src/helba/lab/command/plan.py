"""`helba plan`: parameters for a problem, and why they were chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from helba.lab.command.completion import values_of
from helba.lab.command.options import Json, Security, whole_number
from helba.lab.option import refuse_options


def plan(
    dim: Annotated[int, whole_number(text="features of an arm")],
    arms: Annotated[int, whole_number(text="arms of a round")],
    horizon: Annotated[int, whole_number(text="rounds")],
    security: Security = 128,
    profile: Annotated[
        str | None,
        typer.Option(
            help="shares (the default), or of the reference ciphertext or paper; ciphertext with "
            "an option of the reference",
            autocompletion=values_of("profile"),
        ),
    ] = None,
    opener: Annotated[
        str | None,
        typer.Option(
            help="profile shares: users (the default) or authority",
            autocompletion=values_of("opener"),
        ),
    ] = None,
    bonus: Annotated[
        str | None,
        typer.Option(
            help="quadratic, or sqrt: reference profiles; that of the profile unless told",
            autocompletion=values_of("bonus"),
        ),
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="trace or public", autocompletion=values_of("schedule"))
    ] = "trace",
    length: Annotated[float, typer.Option(help="L, the longest context")] = 1.0,
    ridge: Annotated[float, typer.Option(help="lambda, the ridge")] = 1.0,
    refresh: Annotated[
        str | None,
        typer.Option(
            help="reference: client (the default), bootstrap or none",
            autocompletion=values_of("refresh"),
        ),
    ] = None,
    argmax: Annotated[
        str | None,
        typer.Option(
            help="reference: product (shows the winner), sum (the order) or auto",
            autocompletion=values_of("argmax"),
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            help="reference: own (the default), shared or switched",
            autocompletion=values_of("keys"),
        ),
    ] = None,
    ring_dim: Annotated[int | None, whole_number(text="reference: fix N")] = None,
    depth: Annotated[int | None, whole_number(text="reference: fix the levels")] = None,
    scale_bits: Annotated[
        int | None, whole_number(text="reference: fix the bits of a level")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose parameters for a problem, and say what they promise, cost and why they were chosen."""
    reference = {
        "refresh": refresh,
        "argmax": argmax,
        "keys": keys,
        "ring_dim": ring_dim,
        "depth": depth,
        "scale_bits": scale_bits,
    }
    given = {name: value for name, value in reference.items() if value is not None}
    chosen = profile or ("ciphertext" if given or bonus == "sqrt" else "shares")
    problem = {
        "dim": dim,
        "arms": arms,
        "horizon": horizon,
        "bonus": bonus or ("sqrt" if chosen == "paper" else "quadratic"),
        "schedule": schedule,
        "length": length,
        "ridge": ridge,
    }
    if chosen == "shares":
        from helba.lab.plan.shares import plan_shares_and_report

        refuse_options(given, chosen="profile shares")
        plan_shares_and_report(
            problem, opener=opener or "users", security=security, as_json=as_json
        )
        return
    from helba.lab.plan.reference import plan_and_report

    refuse_options({"opener": opener}, chosen=f"profile {chosen}")
    plan_and_report({**problem, **given, "security": security, "profile": chosen}, as_json=as_json)

"""`helba plan`: parameters for a problem, and why they were chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from helba.cli.options import Json, Security, whole_number

__all__ = ["plan"]


def plan(
    dim: Annotated[int, whole_number(text="features of an arm")],
    arms: Annotated[int, whole_number(text="arms of a round")],
    horizon: Annotated[int, whole_number(text="rounds")],
    security: Security = 128,
    profile: Annotated[str, typer.Option(help="fast or paper")] = "fast",
    refresh: Annotated[str, typer.Option(help="client, bootstrap or none")] = "client",
    bonus: Annotated[
        str | None, typer.Option(help="quadratic or sqrt; that of the profile unless told")
    ] = None,
    schedule: Annotated[str, typer.Option(help="trace or public")] = "trace",
    argmax: Annotated[
        str, typer.Option(help="product (shows the winner), sum (shows the order) or auto")
    ] = "auto",
    keys: Annotated[str, typer.Option(help="own, shared or switched")] = "own",
    gaps: Annotated[str, typer.Option(help="shown or hidden")] = "shown",
    latency: Annotated[
        str | None, typer.Option(help="interactive or single; interactive where it is possible")
    ] = None,
    users: Annotated[int, whole_number(text="users who share a ciphertext")] = 1,
    length: Annotated[float, typer.Option(help="L, the longest context")] = 1.0,
    ridge: Annotated[float, typer.Option(help="lambda, the ridge")] = 1.0,
    ring_dim: Annotated[int | None, whole_number(text="fix N")] = None,
    depth: Annotated[int | None, whole_number(text="fix the levels")] = None,
    scale_bits: Annotated[int | None, whole_number(text="fix the bits of a level")] = None,
    as_json: Json = False,
) -> None:
    """Choose parameters for a problem, and say what they promise, cost and why they were chosen."""
    from helba.experiments.plan_report import plan_and_report

    plan_and_report(
        {
            "dim": dim,
            "arms": arms,
            "horizon": horizon,
            "security": security,
            "profile": profile,
            "refresh": refresh,
            "bonus": bonus or ("sqrt" if profile == "paper" else "quadratic"),
            "schedule": schedule,
            "argmax": argmax,
            "keys": keys,
            "gaps": gaps,
            "latency": latency,
            "users": users,
            "length": length,
            "ridge": ridge,
            "ring_dim": ring_dim,
            "depth": depth,
            "scale_bits": scale_bits,
        },
        as_json=as_json,
    )

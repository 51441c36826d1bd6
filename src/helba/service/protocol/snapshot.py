"""The whole state of a server as bytes, between any two messages.

    data = save_server(server)
    server = restore_server(data, deployment=deployment, engine=engine, directory=directory)

A state that is kept elsewhere in parts, of which most stay the same, is described and joined.

Ciphertexts stand in the engine's own format, once each, the rest in a JSON head. Messages that are
kept (answers, tasks) stand as they were sent, and are read as their receivers will. A computation
that waits for help is saved as its inputs, what it was given so far, and the server's half of the
task that is out, so that a reply to it still counts: restoring repeats the computation up to there.

Keys are not in it: the users and their re-encryption keys come with the directory.

The bytes hold secrets of the server towards its users (masks, signs of tests and checks): they are
its own file, never a message. Without the secret key, which the server does not have, they decrypt
nothing.

Goes with the old service.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from helba.errors import DamagedData, HelbaError
from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import name_key
from helba.reference.protocol.profiles.profile import Held, Model, RidingTest, Statistics
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.growth import Growth, GrowthTests, UpdateTest
from helba.reference.protocol.serving.jobs import Check, Result
from helba.reference.protocol.serving.schedule import ServerSchedule
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.serving.work import (
    AnswerWork,
    OpenRound,
    OpenTask,
    TestWork,
    UpdateWork,
    Work,
)
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.frame import frame, unframe
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.reference.twin.terms import BatchTerms
from helba.service.protocol.snapshotparts import PartReader, PartWriter

MAGIC = b"\x89HELSRV\n"
VERSION = 8
MOST_HEAD_BYTES = 1 << 30
MOST_PARTS = 1 << 20
COUNTS = ("round", "samples", "updates", "rejected", "levels_left", "last_error")
SCHEDULE = ("start", "plays", "covered", "covered_before", "passed", "lag", "stretch")


def save_server(server: Server) -> bytes:
    """Return the state of the server; it goes on as before."""
    writer = PartWriter(server._engine)
    return join_state(describe_server(server, writer), writer.parts)


def join_state(head: bytes, parts: Sequence[bytes]) -> bytes:
    """Return the state that has this head and these parts, in their order."""
    return frame(magic=MAGIC, version=VERSION, kind=0, head=head, parts=parts)


def describe_server(server: Server, writer: PartWriter, *, lasting: bool = False) -> bytes:
    """Write the parts of the state, and return its head.

    With `lasting`, what concerns single rounds is left out: those that were answered, their
    answers, and what is under way, which begins again or is asked again.
    """
    head = {
        "deployment": server.deployment.fingerprint,
        "key": name_key(server._engine.public_key).hex(),
        **{name: getattr(server, name) for name in COUNTS},
        "schedule": {name: getattr(server.schedule, name) for name in SCHEDULE},
        "models": [_describe_model(model, writer) for model in server.models.values()],
        "design": writer.vector(server.design),
        "response": writer.vector(server.response),
        "growth": _describe_growth(server.growth, writer),
        "held": [_describe_held(held, writer) for held in server.held],
        "ledger": {k.hex(): bits for k, bits in server.ledger.as_dict().items()},
        "bits": server.ledger.total,
        "rounds": {},
        "answers": [],
        "work": [],
    }
    if lasting:
        working = sum(isinstance(work, AnswerWork) for work in server.worker.work)
        head["round"] = server.round - working
    else:
        rounds, answers = server.rounds.items(), server.answers.items()
        head["rounds"] = {k.hex(): [v.user.hex(), v.reported] for k, v in rounds}
        head["answers"] = [[k.hex(), writer.part(v)] for k, v in answers]
        head["work"] = [_describe_work(work, writer) for work in server.worker.work]
    return json.dumps(head, separators=(",", ":"), allow_nan=False).encode()


def restore_server(
    data: bytes,
    *,
    deployment: Deployment,
    engine: Engine,
    directory: Directory,
    resume: bool = True,
) -> Server:
    """Return a server that goes on where the saved one stood, or raise `DamagedData`.

    The engine must be that of the collective key under which the state was saved. Without `resume`
    what was under way is given up: nothing is computed, and no evaluation key is needed.
    """
    _, text, parts = unframe(
        data,
        magic=MAGIC,
        version=VERSION,
        what="the state of a server",
        most_head=MOST_HEAD_BYTES,
        most_parts=MOST_PARTS,
    )
    try:
        head = json.loads(text)
        if head["deployment"] != deployment.fingerprint:
            raise DamagedData("the state belongs to a server of another deployment")
        if head["key"] != name_key(engine.public_key).hex():
            raise DamagedData("the state was saved under another collective key")
        if not resume:
            _drop_work(head)
        reader = PartReader(engine, parts, codec=Codec(deployment))
        return _rebuild(head, reader, deployment=deployment, directory=directory)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, HelbaError):
            raise
        raise DamagedData("the state of the server is not complete") from error


def _drop_work(head: dict[str, Any]) -> None:
    """Leave out what was under way; rounds that were being answered may be asked again."""
    for work in head["work"]:
        if work["kind"] == "answer":
            del head["rounds"][work["asked"]]
            head["round"] -= 1
    head["work"] = []


def _describe_model(model: Model, writer: PartWriter) -> dict[str, Any]:
    return {
        "terms": asdict(model.terms),
        "inverse": writer.vector(model.inverse),
        "scoring": writer.vector(model.scoring),
    }


def _read_model(saved: dict[str, Any], reader: PartReader) -> Model:
    return Model(
        terms=BatchTerms(**saved["terms"]),
        inverse=reader.vector(saved["inverse"]),
        scoring=reader.vector(saved["scoring"]),
    )


def _describe_growth(growth: GrowthTests, writer: PartWriter) -> dict[str, Any]:
    return {
        "seen": writer.maybe(growth.seen),
        "count": growth.count,
        "waiting": [[writer.vector(each.vector), each.count] for each in growth.waiting],
        "out": {name.hex(): asdict(test) for name, test in growth.out.items()},
    }


def _read_growth(saved: dict[str, Any], reader: PartReader) -> GrowthTests:
    return GrowthTests(
        seen=reader.maybe(saved["seen"]),
        count=saved["count"],
        waiting=[
            Growth(vector=reader.vector(vector), count=_count(count))
            for vector, count in saved["waiting"]
        ],
        out={bytes.fromhex(name): UpdateTest(**test) for name, test in saved["out"].items()},
    )


def _describe_held(held: Held, writer: PartWriter) -> list[int | None]:
    added = held.statistics
    vectors = (added.design, added.response, added.growth)
    return [*(writer.maybe(vector) for vector in vectors), held.count]


def _read_held(saved: list[Any], reader: PartReader) -> Held:
    design, response, growth, count = saved
    return Held(
        statistics=Statistics(
            design=reader.vector(design),
            response=reader.vector(response),
            growth=reader.maybe(growth),
        ),
        count=_count(count),
    )


def _describe_work(work: Work, writer: PartWriter) -> dict[str, Any]:
    request = work.running.request
    shared = {
        "model": _describe_model(work.model, writer),
        "record": [_describe_result(result, writer) for result in work.running.record],
        "tasks": [_describe_task(user, task, writer) for user, task in work.tasks.items()],
        "check": [writer.vector(request.vector), list(request.signs)]
        if isinstance(request, Check)
        else None,
    }
    if isinstance(work, AnswerWork):
        test = None
        if work.test is not None:
            rider = work.test.rider
            test = [writer.vector(work.test.growth), rider.flip, rider.noise]
        return {
            "kind": "answer",
            **shared,
            "user": work.user.hex(),
            "asked": work.asked.hex(),
            "round": work.round,
            "contexts": writer.vectors(work.contexts),
            "test": test,
            "test_name": None if work.test_name is None else work.test_name.hex(),
        }
    if isinstance(work, TestWork):
        growth = writer.vector(work.growth)
        return {
            "kind": "test",
            **shared,
            "growth": growth,
            "plays": work.plays,
            "round": work.round,
        }
    assert isinstance(work, UpdateWork)
    return {
        "kind": "update",
        **shared,
        "design": writer.vector(work.design),
        "response": writer.vector(work.response),
        "terms": asdict(work.terms),
        "reach": work.reach,
    }


def _describe_task(user: bytes, task: OpenTask, writer: PartWriter) -> list[Any]:
    pending = None
    if task.pending is not None:
        pending = writer.part(writer.engine.pending_to_bytes(task.pending))
    return [user.hex(), task.name.hex(), writer.part(task.data), pending]


def _read_task(saved: list[Any], reader: PartReader) -> tuple[bytes, OpenTask]:
    user, name, data, pending = saved
    mask = None if pending is None else reader.engine.pending_from_bytes(reader.part(pending))
    known = bytes.fromhex(name)
    task = OpenTask(name=known, data=reader.task(data, name=known), pending=mask)
    return _id(user), task


def _describe_result(result: Result, writer: PartWriter) -> dict[str, Any]:
    if isinstance(result, EncryptedVector):
        return {"vector": writer.vector(result)}
    if isinstance(result, bool):
        return {"bit": result}
    return {"numbers": [float(value) for value in np.asarray(result)]}


def _bit(value: object) -> bool:
    if not isinstance(value, bool):
        raise DamagedData("a bit of the state is none")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise DamagedData("a count of the state is none")
    return value


def _id(text: str) -> bytes:
    name = bytes.fromhex(text)
    if len(name) != ID_BYTES:
        raise DamagedData("an id of the state is none")
    return name


def _read_result(saved: dict[str, Any], reader: PartReader) -> Result:
    if "vector" in saved:
        return reader.vector(saved["vector"])
    if "bit" in saved:
        return bool(saved["bit"])
    return np.array(saved["numbers"], dtype=np.float64)


def _rebuild(
    head: dict[str, Any], reader: PartReader, *, deployment: Deployment, directory: Directory
) -> Server:
    server = Server(deployment, engine=reader.engine, directory=directory)
    for name in COUNTS:
        setattr(server, name, head[name])
    server.schedule = ServerSchedule(
        deployment.settings, band=deployment.test_band, **head["schedule"]
    )
    models = [_read_model(saved, reader) for saved in head["models"]]
    server.models = OrderedDict((model.terms.number, model) for model in models)
    server.design, server.response = reader.vectors([head["design"], head["response"]])
    server.growth = _read_growth(head["growth"], reader)
    server.held = [_read_held(saved, reader) for saved in head["held"]]
    server.rounds = {
        bytes.fromhex(name): OpenRound(user=_id(user), reported=_bit(reported))
        for name, (user, reported) in head["rounds"].items()
    }
    for name, bits in head["ledger"].items():
        server.ledger.add(_id(name), _count(bits))
    server.ledger.total = _count(head["bits"])
    names = [(bytes.fromhex(name), number) for name, number in head["answers"]]
    server.answers = OrderedDict(
        (name, reader.answer(number, round=name)) for name, number in names
    )
    for saved in head["work"]:
        _resume_work(server, saved, reader)
    return server


def _resume_work(server: Server, saved: dict[str, Any], reader: PartReader) -> None:
    work = _read_work(saved, reader, models=server.models)
    record = [_read_result(result, reader) for result in saved["record"]]
    server.worker.restore(work, record=record)
    job = work.running
    if isinstance(job.request, Check) != (saved["check"] is not None):
        raise DamagedData("a saved computation does not come to where it stood")
    if saved["check"] is not None:  # not the one that was drawn just now: helpers have the other
        vector, signs = saved["check"]
        job.request = Check(vector=reader.vector(vector), signs=tuple(signs))
    work.tasks = OrderedDict(_read_task(task, reader) for task in saved["tasks"])


def _read_work(saved: dict[str, Any], reader: PartReader, *, models: Mapping[int, Model]) -> Work:
    model = _read_model(saved["model"], reader)
    model = models.get(model.terms.number, model)
    if saved["kind"] == "answer":
        test = None
        if saved["test"] is not None:
            growth, flip, noise = saved["test"]
            rider = Rider(flip=flip, noise=noise)
            test = RidingTest(growth=reader.vector(growth), rider=rider)
        name = saved["test_name"]
        return AnswerWork(
            model=model,
            user=_id(saved["user"]),
            asked=_id(saved["asked"]),
            round=saved["round"],
            contexts=reader.vectors(saved["contexts"]),
            test=test,
            test_name=None if name is None else bytes.fromhex(name),
        )
    if saved["kind"] == "test":
        return TestWork(
            model=model,
            growth=reader.vector(saved["growth"]),
            plays=saved["plays"],
            round=saved["round"],
        )
    return UpdateWork(
        model=model,
        design=reader.vector(saved["design"]),
        response=reader.vector(saved["response"]),
        terms=BatchTerms(**saved["terms"]),
        reach=saved["reach"],
    )

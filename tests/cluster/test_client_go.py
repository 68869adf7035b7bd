"""client-go itself confirms the tables of tests/clientgo: which certificates and which kubeconfigs it accepts.

Unit tests compare capacityd with the same tables.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.clientgo import client_go
from tests.clientgo.certificates import CASES, serve
from tests.clientgo.shapes import SHAPES
from tests.support.server import Request, answer


def test_client_go_accepts_the_same_certificates(tmp_path: Path) -> None:
    def kubernetes_version(_: Request) -> bytes:
        return answer(200, {"major": "1"})

    with ExitStack() as stack:
        kubeconfigs = {}
        for number, (name, case) in enumerate(CASES.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            _, kubeconfigs[name] = stack.enter_context(serve(case, folder, kubernetes_version))
        outcomes = dict(zip(kubeconfigs, client_go(list(kubeconfigs.values())), strict=True))
    accepted = {name: outcome.get("reached", False) for name, outcome in outcomes.items()}
    assert accepted == {name: case.accepted for name, case in CASES.items()}, outcomes


def test_client_go_reads_the_same_kubeconfigs(tmp_path: Path) -> None:
    paths = []
    for number, shape in enumerate(SHAPES.values()):
        paths.append(tmp_path / str(number))
        paths[-1].write_text(shape.text, newline="")
    outcomes = dict(zip(SHAPES, client_go(paths, connect=False), strict=True))
    read = {
        name: None if outcome.get("error") else (outcome["host"], outcome.get("token", ""))
        for name, outcome in outcomes.items()
    }
    assert read == {name: shape.go_reads for name, shape in SHAPES.items()}, outcomes

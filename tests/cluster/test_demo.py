"""The demo shows the results up to the first section that differs. test_docs.py runs the real page."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.cluster import demo

SHOWN = """\
## 1. As shown

```console
$ kubectl get node n1 -o name
node/n1
```

## 2. Not as shown

```console
$ echo 3
4
```
"""


class Node:
    """What the commands of the page run on."""

    def run(self, command: str, shown: str) -> str:
        return {"kubectl get node n1 -o name": "node/n1\n", "echo 3": "3\n"}[command]


def test_the_demo_stops_at_an_output_that_differs_from_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(demo, "cluster_world", lambda: nullcontext(Node()))
    demo.PAGE.write_text(f"{SHOWN}\n## 3. Not reached\n")
    assert demo.main() == 1
    output = capsys.readouterr()
    assert SHOWN.replace("4\n", "3\n") in output.out
    assert "3. Not" not in output.out
    assert '"## 2. Not as shown" of page.md' in output.err

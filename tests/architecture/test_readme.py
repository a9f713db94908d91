"""The README's first two commands are the two that a newcomer needs."""

import os
import re

from tests.architecture.tracked import ROOT


def test_the_first_two_commands_show_the_product_and_check_it() -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```(?:bash|console|sh|shell)\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    commands = [re.sub(r"\s+#.*", "", line) for line in lines if line and not line.startswith("#")]
    assert commands[:2] == ["./infra/demo", "./infra/test"]


def test_both_commands_can_be_run() -> None:
    assert [
        name
        for name in ("infra/demo", "infra/test", "infra/setup.sh", ".ci/run")
        if not os.access(ROOT / name, os.X_OK)
    ] == []

"""The policies of docs/how-to/permissions.md, and how IAM reads them."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "how-to" / "permissions.md"
BUCKET: Final = "lake"
ROOT: Final = "mart/orders/"
Policy = dict[str, Any]


def policy_of(title: str) -> Policy:
    """Return the JSON below a heading of the page."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert section is not None
    block = re.search(r"^```json\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)
    assert block is not None
    found: Policy = json.loads(block[1])
    assert found["Version"] == "2012-10-17"
    assert "*" not in "".join(actions(found))
    return found


def together(policies: Iterable[Policy]) -> Policy:
    """Return what a role may do that has several policies."""
    return {"Version": "2012-10-17", "Statement": [one for policy in policies for one in policy["Statement"]]}


def moved(policy: Policy, bucket: str, root: str) -> Policy:
    """Return a policy of the page for a table at another place."""
    text = json.dumps(policy).replace(f"{BUCKET}/{ROOT}", f"{bucket}/{root}").replace(ROOT, root)
    found: Policy = json.loads(text.replace(f':::{BUCKET}"', f':::{bucket}"'))
    return found


def actions(policy: Policy) -> list[str]:
    return sorted({action for statement in policy["Statement"] for action in statement["Action"]})


def allows(policy: Policy, action: str, resource: str, *, prefix: str = "") -> bool:
    """Read a policy as IAM would: resources (``bucket/key``, or ``bucket``), and the condition on the prefix."""

    def holds(statement: dict[str, Any]) -> bool:
        conditions = statement.get("Condition", {})
        assert conditions.keys() <= {"StringLike"}
        assert all(names.keys() == {"s3:prefix"} for names in conditions.values())
        wanted = [names["s3:prefix"] for names in conditions.values()]
        return (
            statement["Effect"] == "Allow"
            and action in statement["Action"]
            and fnmatch.fnmatchcase(f"arn:aws:s3:::{resource}", statement["Resource"])
            and all(fnmatch.fnmatchcase(prefix, pattern) for pattern in wanted)
        )

    return any(holds(statement) for statement in policy["Statement"])

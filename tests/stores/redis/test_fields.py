"""How Redis spells the fields of a job."""

import re

from mulligan.stores.redis import scripts
from mulligan.stores.redis.fields import CLAIM_STATE


def test_scripts_read_the_fields_that_a_claim_carries_in_their_order():
    names = [name for name, _ in CLAIM_STATE]
    [listed] = re.findall(r"CLAIM_FIELDS = \{ (.*) \}", scripts.read("shared/claim_fields.lua"))
    assert listed.replace("'", "").split(", ") == names

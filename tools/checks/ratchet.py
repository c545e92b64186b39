"""Numbers that may only fall: what there is of each kind, beside what tools/ratchets.json allows."""

import json

from checks.source import ROOT

FILE = ROOT / "tools" / "ratchets.json"
LOWER = "tools/check_layers.py --lower"
SHOWN_MAX = 8


class Ratchets:
    def __init__(self):
        self.allowed = json.loads(FILE.read_text()) if FILE.is_file() else {}
        self.found = {}

    def check(self, section, found, advice):
        """found: {key: [where it is found]}. Yields what is over the number that is allowed, or under it."""
        allowed = self.allowed.get(section, {})
        self.found[section] = {key: len(places) for key, places in found.items() if places}
        for key in sorted({*allowed, *self.found[section]}):
            number, limit = self.found[section].get(key, 0), allowed.get(key, 0)
            if number > limit:
                shown = "".join(f"\n  {place}" for place in found[key][:SHOWN_MAX])
                more = f"\n  and {number - SHOWN_MAX} more" if number > SHOWN_MAX else ""
                yield f"{section}: {key}: {number}, at most {limit}: {advice}{shown}{more}"
            elif number < limit:
                yield f"{section}: {key}: fell from {limit} to {number}; keep it there: {LOWER}"

    def check_sizes(self, section, found, slack, advice):
        """found: {key: lines}. A size may be up to `slack` under its limit before the limit must follow."""
        allowed = self.allowed.get(section, {})
        self.found[section] = {}
        for key in sorted({*allowed, *found}):
            lines, limit = found.get(key, 0), allowed.get(key, 0)
            if lines:
                # Some lines more, and a round number, so that not every line is a change of the limit.
                self.found[section][key] = limit if limit - slack < lines <= limit else -(-(lines + 20) // 50) * 50
            if lines > limit:
                yield f"{section}: {key}: {lines} lines, at most {limit}: {advice}"
            elif lines <= limit - slack:
                yield f"{section}: {key}: fell from {limit} to {lines} lines; keep it there: {LOWER}"

    def write(self, only_lower):
        """As there is now; with `only_lower` no number rises, and none is added."""
        for section, found in self.found.items():
            old = self.allowed.get(section, {})
            if only_lower:
                found = {key: min(found.get(key, 0), limit) for key, limit in old.items()}
            self.allowed[section] = {key: number for key, number in sorted(found.items()) if number}
        FILE.write_text(json.dumps(self.allowed, indent=1) + "\n")

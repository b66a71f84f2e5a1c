"""The search of the site finds guides before the reference, and members of a class at the class."""

from scripts.search_index import guides_first


def item(location: str, level: int, title: str, text: str = "text") -> dict[str, object]:
    return {"location": location, "level": level, "title": title, "text": text, "path": ["A", "B"]}


def test_members_are_found_at_their_class() -> None:
    page = "reference/podium.policy.html"
    guides = [
        item("policy.html#approval", 2, "Approval"),
        item("reference/command-line.html#podium", 3, "podium"),
    ]
    reference = [
        item(page, 1, "podium.policy"),
        item(f"{page}#podium.policy.Policy", 2, "podium.policy.Policy  <small>class</small>"),
        item(f"{page}#podium.policy.Policy.approve", 3, "approve  <small>attribute</small>"),
        item(f"{page}#podium.policy.Policy.ask", 3, "ask"),
    ]
    found = guides_first([*guides, *reference])
    assert found[:2] == guides
    assert [(each["title"], each["text"], each["path"]) for each in found[2:]] == [
        ("podium.policy", "", ["A"]),
        ("podium.policy.Policy  <small>class</small>", " approve ask", ["A"]),
    ]

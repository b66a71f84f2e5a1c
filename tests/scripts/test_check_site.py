"""The check of the site that was built."""

from pathlib import Path

from scripts.check_site import faults

BODIES = (
    ('<a href="b.html#there">', None),
    ('<a href="https://example.org/">', None),
    ('<a href="c.html">', "a.html links to c.html, which does not exist"),
    ('<a href="b.html#gone">', "a.html links to b.html#gone, which does not exist"),
    ('<a href="#gone">', "a.html links to #gone, which does not exist"),
    ('<img src="picture.svg">', "a.html links to picture.svg, which does not exist"),
    ('<link rel="next" href="https://example.org/">', None),
    ('<script src="https://example.org/x.js">', "a.html loads https://example.org/x.js from a network"),
)


def test_a_link_leads_to_a_file_of_the_site(tmp_path: Path) -> None:
    """With its anchor; nothing is loaded from a network."""
    (tmp_path / "b.html").write_text('<p id="there">')
    for body, fault in BODIES:
        (tmp_path / "a.html").write_text(body)
        assert [line for line in faults(tmp_path) if line.startswith("a.html")] == ([fault] if fault else [])


def test_every_public_name_is_in_the_reference(tmp_path: Path) -> None:
    """A name whose docstring is not on its module's page is a fault."""
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/podium.html").write_text('<h2 id="podium.conductor.Conductor">')
    found = list(faults(tmp_path))
    assert "podium.Plan is not in the reference" in found
    assert "podium.Conductor is not in the reference" not in found

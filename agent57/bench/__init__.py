"""Everything that measures speed or memory.

`benchmark` measures each part against the limits of this machine (`agent57 bench`), and `measuring`
finds the costs that `agent57 plan` predicts from. Longer measurements of one question run as
`python -m agent57.bench.NAME`; docs/PERFORMANCE.md lists them.
"""

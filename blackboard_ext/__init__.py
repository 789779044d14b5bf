"""Opt-in orchestration for CaseHub, on top of `casehub` and never needed by it.

Its layers, lowest first: events and the plan (the control blackboard), stages, the contract of a planning strategy,
the loop control that asks a strategy what runs next, and ready strategies. It sees the nouns of `casehub` and
`casehub.spi`, nothing else.

So far the package has its name and its place in the wheel; there is nothing to import from it yet.
"""

"""The engine: how one case turns inputs into events, and how a hub works many of them.

live         one case as a pure object: an input in, the events that follow out
intake       what each kind of input says
reactors     what follows from each kind of event
agenda       which bindings are eligible, and why others are not
choreography the default loop control
deliberation asking a loop control that awaits
pump         the one writer: inbox, turns, commit, dispatch
executor     running a worker's attempt
timers       the one timer wheel
"""

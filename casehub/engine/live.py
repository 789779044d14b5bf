"""One case as a pure object: an input goes in, a turn with every event that follows from it comes out.

A turn is: take the input, close it under reactions, complete the case if its goals are reached, else ask the loop
control what fires, and say where that leaves the case. No I/O, no awaiting: the pump does both around it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from casehub.binding import Binding
from casehub.engine.agenda import Agenda, explain, schedule
from casehub.engine.answers import check_answer
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.engine.compensating import begin, end_after, has_to, next_of
from casehub.engine.deliberation import Deliberations, Question, fingerprint, hindered, stamps_of
from casehub.engine.effects import EFFECTS
from casehub.engine.endings import called_off, cancellation, end_of, may_end, too_long, with_what_is_left
from casehub.engine.failures import message_of
from casehub.engine.intake import Intake
from casehub.engine.limits import free, held_back, held_up, hold, withheld
from casehub.engine.quiescence import at_rest
from casehub.engine.reactors import at_start
from casehub.engine.staging import stage_events, staged
from casehub.engine.takes import TAKES
from casehub.engine.timekeeping import wind
from casehub.errors import CaseHubError, InputRefusedError, LoopControlError
from casehub.events import (
    CaseEnded,
    CaseFaulted,
    CaseStalled,
    CaseStatusChanged,
    Envelope,
    Event,
    SelectionDropped,
)
from casehub.explanation import Explanation, Verdict
from casehub.folding import apply
from casehub.inputs import NEVER, OWN, Adopt, Cancel, Deliberated, Input, Start, Unfault
from casehub.lifecycle import CaseStatus
from casehub.plan import PlanView
from casehub.query import EventLog
from casehub.spi import Answer, KeepsAgenda, LoopControl, Turn
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.view import CaseView

ROUNDS = 1_000  # of a loop control's transitions in one turn; stages that need more never come to rest


class LiveCase:
    """A case in memory: its state, its structure, its loop control, its agenda. `turn`, `fault`: see `casehub.engine.effects`."""

    __slots__ = (
        "_handles",
        "_intake",
        "_reacts",
        "_selects",
        "agenda",
        "deliberations",
        "fault",
        "log",
        "loop",
        "state",
        "structure",
        "turn",
    )

    def __init__(
        self, state: CaseState, structure: Structure, loop: LoopControl, log: EventLog, chance: random.Random
    ) -> None:
        self.state = state
        self.structure = structure
        self.loop = loop
        self.log = log
        self.agenda = Agenda(structure, state)
        self.deliberations = Deliberations(stage_events(structure, loop))
        self._intake = Intake(state, structure, loop, chance)
        self.turn = Turn(Envelope(case=state.id, at=state.changed_at or NEVER))
        self.fault: CaseFaulted | None = None
        self._handles, self._reacts = loop.handles, True
        self._selects = type(loop).select is not ChoreographyLoopControl.select
        if state.control is None:
            state.control = loop.initial()

    # ---- the turn

    def take(self, input: Input) -> Turn:
        """The turn that an input leads to; the state is the one after it. A turn without events needs no commit.

        Raises `InputRefusedError`, or what else of `CaseHubError` is wrong with an input, with nothing recorded.
        """
        state = self.state
        if state.changed_at is not None and input.at < state.changed_at:
            input.at = state.changed_at  # a case's own time never goes back, whatever clocks do
        envelope = Envelope(
            case=state.id,
            definition=state.definition or self.structure.name,
            tenant=state.tenant,
            turn=state.turn + 1,
            version=state.version + 1,
            at=input.at,
        )
        turn = self.turn = Turn(envelope, key=input.key)
        self.deliberations.handed, taking = False, True
        self._handles, self._reacts = self.loop.handles, True
        try:
            self._record(self._first(input))
            taking = False
            if turn.events and type(input) in (Start, Adopt, Unfault):
                self._record(at_start(state, self.structure))
            while not state.status.ended and self._settle():
                pass  # something that was dispatched has ended at once
        except Exception as error:
            refused = isinstance(error, InputRefusedError)
            if not turn.events and (refused or (taking and isinstance(error, CaseHubError) and type(input) not in OWN)):
                raise
            # User code in a condition or a loop control: the case faults, visibly, and no other case notices.
            self._reacts = False  # whoever raised is not asked about the end
            kind = "" if isinstance(error, CaseHubError) else f"{type(error).__name__}: "
            fault = CaseFaulted(before=state.status, reason=kind + message_of(error))
            try:
                self._end(fault)
            except Exception:  # it is the loop control's fold that raises
                self._handles = frozenset()
                self._end(fault)
        turn.status = state.status
        turn.stalled = bool(state.stalled)
        return turn

    def _first(self, input: Input) -> Iterable[Event]:
        if not self.state.version and type(input) is not Start:
            raise InputRefusedError(f"case {self.state.id!r} has not been started; its start was refused")
        if type(input) is Cancel:
            return self._cancel(input)
        if type(input) is Deliberated:
            return self._deliberated(input)
        return TAKES[type(input)](self._intake, input)

    def _cancel(self, input: Cancel) -> Iterable[Event]:
        self._end(cancellation(self.state, input), kill=input.kill, held=input.held)
        return ()

    def _record(self, events: Iterable[Event]) -> None:
        """Put events into the turn, in order, each closed under reactions before the next."""
        state, structure, loop, agenda = self.state, self.structure, self.loop, self.agenda
        deliberations, handles, triggered = self.deliberations, self._handles, self.structure.triggered
        envelope, recorded = self.turn.envelope, self.turn.events
        deliberates = not loop.immediate
        waiting: deque[Event] = deque()
        for first in events:
            event = first
            while True:
                event.envelope = envelope
                event.version = state.version + 1
                apply(state, event)
                recorded.append(event)
                kind = type(event)
                observe, reactors, note = EFFECTS[kind]
                if observe is not None:
                    observe(agenda, event)
                if triggered:
                    agenda.occurred(kind)
                if kind in handles:
                    state.control = loop.apply(state.control, event)
                    if self._reacts:
                        _follow(waiting, loop.react(state, event), event)
                for reactor in reactors:
                    if following := reactor(state, structure, event):
                        _follow(waiting, following, event)
                if note is not None:
                    note(self, event)
                if deliberates or deliberations.awaiting:
                    deliberations.observe(event)
                if not waiting:
                    break
                event = waiting.popleft()

    def _end(self, end: CaseEnded, *, kill: bool = False, held: str | None = None) -> None:
        """End the case, once it has undone what it has to; what is in flight is called off first, so that the end is the last
        event of the log. `kill`: nothing is undone; `held`: why nothing may start meanwhile, as it was by default."""
        state, structure = self.state, self.structure
        if state.status.ended:
            return
        if state.deliberating:
            self._record(self.deliberations.cancel(state))
        compensates = not kill and has_to(state, structure, end)
        self._record(called_off(state, end, kill=kill, compensates=compensates))
        end.before = state.status
        end.cause = end.cause or (self.turn.events[-1].version if self.turn.events else 0)
        self._withdraw(())
        if compensates:
            self._record(begin(state, structure, end, held))
            self._compensate()
        else:
            self.turn.timers.update(dict.fromkeys(state.timers))
            self._record((with_what_is_left(state, end, kill=kill),))

    def _compensate(self) -> bool:
        """Start what is to be undone next; end the case where nothing is left. Nothing else is dispatched: False."""
        while (starting := next_of(self.state, self.structure)) is not None:
            self._record(starting)
        if (end := end_after(self.state, self.structure)) is not None:
            self._end(end)
        return False

    # ---- what the facts come to

    def _settle(self) -> bool:
        """Complete, dispatch, or say what the case waits for; whether something that was dispatched has ended in it."""
        state = self.state
        if state.compensations.ending is not None:
            return self._compensate()
        if self.fault is None and not self._transitions():  # a case that faults leaves its stages as they are
            return False
        for end in (end_of(state, self.structure, self.fault), too_long(state, self.structure)):
            if end is not None and may_end(state, end):
                self._end(end)
                return False
        if self.structure.timed or state.timers:
            self._record(wind(state, self.structure, self.loop))
        if not state.status.active:
            if state.deliberating:
                self._record(self.deliberations.cancel(state))
            return False
        eligible = self._eligible()
        if self._selects:  # choreography chooses all, and what is held back is said when it would fire
            self._record(held_up(state, self.structure, self.loop, eligible))
            eligible = self._free()
        asked = state.deliberation
        if self.loop.immediate:
            if eligible and self._fire(self._ask(list(eligible))):
                return True
        else:
            self._withdraw(eligible)
            if self.deliberations.due(state, eligible):
                self._record(self.deliberations.start(state, eligible))
        if not state.at_work and not state.deliberating:
            self._rest(eligible)
        if state.status is CaseStatus.WAITING and (state.at_work or state.deliberating):
            self._record((CaseStatusChanged(before=CaseStatus.WAITING, after=CaseStatus.RUNNING),))
        if state.deliberation != asked:
            view = self.view(plan=self.loop.view(state))
            self.deliberations.question = Question(view, list(eligible), stamps_of(state, eligible))
        return False

    def _withdraw(self, eligible: Sequence[Binding]) -> None:
        """Let the loop control's own agenda lose what is eligible no more."""
        if not self.loop.immediate and self._reacts and isinstance(self.loop, KeepsAgenda):
            self._record(self.loop.withdraw(self.state, eligible))

    def _eligible(self) -> Sequence[Binding]:
        """The eligible bindings that no stage holds back, in order of declaration."""
        return staged(self.state, self.structure, self.loop, self.agenda.refresh(self.state))

    def _free(self) -> list[Binding]:
        return free(self.state, self.structure, self.loop, self._eligible())

    def _transitions(self) -> bool:
        """Let the loop control take its transitions, round by round; whether the case goes on after them."""
        events: Sequence[Event] = ()
        for _ in range(ROUNDS):
            if not (events := tuple(self.loop.settle(self.state))):
                return True
            self._record(events)
            if self.state.status.ended:
                return False
        reason = f"its stages did not come to rest in {ROUNDS} rounds; last: {', '.join(e.name for e in events)}"
        self._end(CaseFaulted(before=self.state.status, reason=reason))
        return False

    def _ask(self, eligible: list[Binding]) -> Sequence[Binding]:
        """The answer of a loop control that never suspends; choreography chooses all of them, and need not be asked."""
        if not self._selects:
            return eligible
        # Within its turn nothing changes while the case is looked at, so nothing is copied.
        view = CaseView(self.state, self.state.facts, self.structure, self.log, self.turn.envelope.at)
        selecting = self.loop.select(view, eligible)
        try:
            selecting.send(None)
        except StopIteration as answered:
            answer: Answer = answered.value
        else:
            selecting.close()
            raise LoopControlError(
                f"loop control {type(self.loop).__name__} says immediate=True and its select suspended; say immediate=False"
            )
        if answer is eligible:
            return eligible
        chosen, selection = check_answer(self.loop, eligible, answer)
        self._record(self.deliberations.told(selection, self.turn.envelope.at))
        return chosen

    def _fire(self, chosen: Iterable[Binding]) -> bool:
        """Schedule and start what was chosen, as far as gates, limits and budgets allow; whether some of it has ended."""
        state, over = self.state, False
        for binding in chosen:
            if (held := hold(state, self.structure, self.loop, binding)) is not None:
                self._record(withheld(state, self.structure, binding, held))
                if not self.loop.immediate:
                    self._record((SelectionDropped(binding=binding.name, reason=held_back(held)),))
                continue
            if state.status is CaseStatus.WAITING:
                self._record((CaseStatusChanged(before=CaseStatus.WAITING, after=CaseStatus.RUNNING),))
            self._record(schedule(state, binding))
            over = over or state.firings[binding.name].in_flight is None  # nobody could be asked
        return over

    def _rest(self, left: Sequence[Binding]) -> None:
        """Nothing runs and nothing fires: say what that comes to."""
        state, awaiting = self.state, bool(self.deliberations.awaiting)
        event = at_rest(state, self.structure, self.loop, self._eligible(), self._explained, awaiting=awaiting)
        if isinstance(event, CaseEnded):
            self._end(event)
        elif isinstance(event, CaseStalled) and self.deliberations.hand_over(self.loop):
            self._record(self.deliberations.start(state, left, event.reasons))
        elif event is not None:
            self._record((event,))

    # ---- deliberation

    def _deliberated(self, input: Deliberated) -> Iterable[Event]:
        state, deliberations = self.state, self.deliberations
        before = fingerprint(state, self._free())
        events, fire = deliberations.answer(state, self.agenda.eligible, input)
        self._record(events)
        if events:
            fallen = hindered(state, self.structure, self.loop, fire) if input.strict else []
            self._record(fallen)
            if state.status.active and not fallen:
                self._fire(fire)
            deliberations.settle(state, before, self._free())
        return ()

    # ---- looking in

    def view(self, upto: int | None = None, plan: PlanView | None = None) -> CaseView:
        """The case as user code sees it: as it is now, whatever comes. `upto`: the position its log answers are as of."""
        state = self.state
        return CaseView(state, dict(state.facts), self.structure, self.log, self.turn.envelope.at, upto, plan)

    def explain(self, binding: str | None = None) -> list[Explanation]:
        """The verdict on one binding, or on all of them. Raises `UnknownNameError`."""
        bindings = self.structure.bindings.values() if binding is None else (self.structure.binding(binding),)
        return [self._explained(each) for each in bindings]

    def _explained(self, binding: Binding) -> Explanation:
        said = explain(self.state, self.structure, self.loop, binding)
        if said.verdict is Verdict.ELIGIBLE and not self.state.deliberating:
            return replace(said, verdict=Verdict.NOT_SELECTED, text=self.deliberations.refusal)
        return said


def _follow(waiting: deque[Event], events: Iterable[Event], cause: Event) -> None:
    for event in events:
        event.cause = cause.version
        waiting.append(event)

"""The engine: how one case turns inputs into events, and how a hub works many of them.

Pure, from the input to what follows from it:

    live          one case as an object: an input in, a turn of events out
    takes         what takes each kind of input: one of the modules from here to quarantine
    intake        what inputs say that no module of their own is for
    reports       what a report of work done elsewhere says
    unfault       what lets a faulted case go on
    letters       what may be done about an activation that ended in a fault
    rerouting     work that somebody gives to another worker
    completions   what a worker's result writes
    results       what a worker's value is to become, and how sure it is
    attempts      which activations have their next attempt now
    failures      what is said of an attempt that ends badly, and what follows
    people        what people do about their tasks, and what follows from that
    brake         cases in which nothing new starts
    notices       what a case is told of its hub before it takes anything else
    gates         planned actions: passed, held for people, carried out
    children      work that is cases of its own, and what they come to
    quarantine    workers that keep failing and are left alone for a while
    effects       what an event does beyond its fold, by its class
    reactors      what follows from each kind of event
    agenda        which bindings are eligible, and why others are not
    answers       what is an answer of a loop control, and what is none
    endings       how a case ends, and what is called off before
    compensating  when a case undoes what it did, and by what
    undoing       what is undone next, and what that waits for
    quiescence    what a case comes to in which nothing moves
    diverging     what of a copied case begins anew
    staging       what stages and gates hold back
    timekeeping   which timers a case has for schedules, and what they come to
    limits        limits and budgets, and what they hold back
    choreography  the default loop control
    keeping       what a snapshot keeps of a case, and how it comes back

Around it, what awaits:

    pump          the one writer: inbox, turns, commit, dispatch
    acts          what a pump does about a committed event
    bulk          many inputs for many pumps at once
    recovery      when the store says no
    moving        a case under another version of its definition
    tenure        whose a case is, as its pump knows it
    standing      a hub among the hubs of its store
    waiters       who waits for something in a case
    deliberation  when a loop control that awaits is due, asking it, what its answer comes to
    questions     what a worker asks of people while it runs
    executor      running a worker's attempt
    threads       the threads that sync workers run in
    timers        the one timer wheel
    pool          the tasks that jobs run in
    runtime       what all pumps share
    outage        who waits for a store that does not answer
    watchdog      which code holds the event loop up
"""

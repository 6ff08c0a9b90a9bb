// Package restatestart starts Restate workflows from a Redis stream and never loses a start.
//
// A service gives it two functions. Keep tells whether a message is worth a start; Map tells which workflow it
// starts, under which key and with which input. Each kept message becomes one
// POST {ingress}/{workflow}/{key}/{handler}/send, bounded parallel, with retries. The workflow key makes a start
// happen once: Restate answers a repeat of it with the first one's invocation.
//
//	starter, err := restatestart.New(keep, payout, restatestart.Options{Ingress: "http://restate:8080"})
//	…
//	consumer, err := restatestart.NewConsumer(rdb, "bets_settled", restatestart.JSON[BetSettled], starter,
//		restatestart.ConsumerOptions{Consumer: "bonus-payout"})
//	…
//	err = consumer.Run(ctx) // until ctx is cancelled
//
// A [Starter] reports what was not accepted as a [*BlockedError], and nothing else. A [Consumer] answers one by
// holding the position of that partition and handing over again what failed, for ever; the position moves only past
// what is done. After a crash, messages since the last stored position are handed over again, and Restate
// answers those it knows with PreviouslyAccepted. That holds for as long as Restate retains a finished workflow:
// its workflow_completion_retention, one day by default, must cover the longest time after which a message can come
// again.
//
// The streams, positions and topic metadata are those of RedisEvents, wire version 1, so that services written in
// .NET and Go can share topics and hand positions to each other. A service with a loop of its own uses [Starter]
// alone, with [NewMessage].
//
// # Telemetry
//
// A Starter reports under the scope [ScopeName], a Consumer under [ConsumerScopeName]. What is not known has no value:
// no gauge reads 0 for that reason. Attributes are taken from small sets, whatever the input: the metrics tell 16
// workflows apart, those that came first, and call the rest other; keys, ids, URLs and texts go on spans alone. The README
// says when to alert.
//
//	restate.start.accepted            counter    {start}     workflow, restate.start.duplicate           Starts that Restate accepted; a duplicate's key was known to it.
//	restate.start.attempts            counter    {attempt}   outcome, status_class                       POSTs made. Outcomes: accepted, or the reason they failed for.
//	restate.start.duration            histogram  s           workflow, outcome                           First attempt to outcome, waits included. Outcomes: accepted, failed.
//	restate.start.active              up-down    {start}     -                                           Starts under way, waits between attempts included.
//	restate.start.filtered            counter    {message}   -                                           Messages that Keep turned away.
//	restate.start.failed              counter    {start}     reason                                      Starts that one Handle call did not get accepted. A Reason each.
//	restate.start.blocked             counter    {batch}     -                                           Handle calls that ended blocked, but for shutdowns.
//	streams.consumed                  counter    messages    topic, partition, consumer                  Messages that the handler is done with.
//	streams.filtered                  counter    messages    topic, consumer                             Messages of none of the Types.
//	streams.reads                     counter    {read}      topic, partition, consumer                  Reads that were answered, empty ones too: the heartbeat.
//	streams.errors                    counter    messages    topic, consumer, policy, exception.type     Hand-overs that did not work out, and outages of reading.
//	streams.lost                      counter    messages    topic, partition, consumer, cause           Messages given up on, or gone. Causes: malformed, handler, vanished.
//	streams.gaps                      counter    {gap}       topic, partition, consumer, kind            Holes in a stream. A GapKind each.
//	streams.parked                    counter    messages    topic, partition, consumer, event           Messages parked, replayed or discarded, as the event says.
//	streams.batch.duration            histogram  ms          topic, consumer                             One call of the handler.
//	streams.batch.size                histogram  messages    topic, consumer                             Messages of one call of the handler.
//	streams.blocked                   gauge      status      topic, partition, consumer                  1 while something holds the partition, else 0.
//	streams.block.duration_ms         gauge      ms          topic, partition, consumer                  For how long it has been held, else 0.
//	streams.lag.entries               gauge      entries     topic, partition, consumer                  Entries behind the position.
//	streams.lag.ms                    gauge      ms          topic, partition, consumer                  Age of the oldest message read and not done, 0 when there is none.
//	streams.trim.in                   gauge      s           topic, partition, consumer                  Time until trimming reaches a position that stands.
//	streams.stream.length             gauge      entries     topic, partition                            Entries in the stream, done ones included.
//	streams.partitions.stopped        gauge      partitions  topic, consumer                             Partitions that ErrorStop has stopped.
//	streams.positions.flush_failures  counter    failures    topic, consumer                             Writes of positions that failed.
//
// The values of status_class are none, 1xx to 5xx, and other; of policy best_effort (ErrorSkip), stop_partition, fail, block
// and transport (an outage of reading); of exception.type BlockedError, MalformedError, PanicError, RedisError and Error.
//
// A client span `restate.start {workflow}` covers the attempts of one start, under the span of the message's producer
// and linked to that of its batch; each attempt that failed is an event of it, and the POST carries it on. A consumer span
// `streams.process {topic}` covers one call of the handler; a batch that is held has none open while it waits.
package restatestart

package contender

import (
	"fmt"
	"strconv"
	"strings"
)

// BodySize is how many bytes the body of a message has.
const BodySize = 100

// What messages and starts are called.
const (
	Workflow = "BonusPayout" // as the service of internal/e2e/payout serves it
	Handler  = "run"
	Wanted   = "BetSettled" // type of a message, field t
	Other    = "BetPlaced"
	batch    = 100
)

// bet is the body of a message. Claim is its number, which ends the workflow key.
type bet struct {
	ID     string  `json:"betId"`
	Claim  string  `json:"claimId"`
	Amount float64 `json:"amount"`
	Note   string  `json:"note"`
}

// payout is the input of a start.
type payout struct {
	BetID  string  `json:"betId"`
	Amount float64 `json:"amount"`
}

// Body is the body of message number n, of size bytes.
func Body(n, size int) string {
	const format = `{"betId":"b-%08d","claimId":"%08d","amount":12.5,"note":"%s"}`
	bare := len(fmt.Sprintf(format, n, n, ""))
	return fmt.Sprintf(format, n, n, strings.Repeat("x", max(0, size-bare)))
}

// StreamKey is the Redis key of a topic's partition, as RedisEvents names it.
func StreamKey(topic string, partition int) string {
	return "s:{" + topic + "}:" + strconv.Itoa(partition)
}

// WatermillStream is where the same partition stands in watermill's own layout.
func WatermillStream(topic string, partition int) string {
	return topic + "." + strconv.Itoa(partition)
}

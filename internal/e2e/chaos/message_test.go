package chaos_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/wire"
)

// message is what is published: worth a payout when it carries a claim.
type message struct {
	Name  string `json:"name"`
	Claim string `json:"claim,omitempty"`
}

func hasClaim(m *restatestart.Message[message]) bool { return m.Value.Claim != "" }

// payoutOf starts a payout whose input names the entry, so that each request and each run tells what made it.
func payoutOf(m *restatestart.Message[message]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: payout.Workflow, Key: m.Value.Claim,
		Input: payout.Input{BetID: strconv.Itoa(m.Partition) + "/" + m.ID, Amount: 1},
	}, nil
}

// refOf reads what payoutOf wrote.
func refOf(input payout.Input) (check.Ref, error) {
	partition, id, _ := strings.Cut(input.BetID, "/")
	number, err := strconv.Atoi(partition)
	if err != nil {
		return check.Ref{}, fmt.Errorf("read the entry %q: %w", input.BetID, err)
	}
	parsed, err := wire.ParseID(id)
	if err != nil {
		return check.Ref{}, fmt.Errorf("read the entry %q: %w", input.BetID, err)
	}
	return check.Ref{Partition: number, ID: parsed}, nil
}

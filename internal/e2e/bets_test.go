package e2e_test

import (
	"cmp"
	"fmt"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
)

// bet is what these tests publish: a settled bet, worth a payout when it carries a claim.
type bet struct {
	ID       string  `json:"betId"`
	Amount   float64 `json:"amount"`
	Claim    string  `json:"claimId,omitempty"`
	Workflow string  `json:"workflow,omitempty"` // of its payout, payout.Workflow when empty
}

// settled makes n bets, the first and every further one of `every` with a claim.
func settled(n, every int) []bet {
	bets := make([]bet, n)
	for i := range bets {
		bets[i] = bet{ID: fmt.Sprintf("b-%05d", i), Amount: float64(i) / 4}
		if i%every == 0 {
			bets[i].Claim = fmt.Sprintf("c-%05d", i)
		}
	}
	return bets
}

// claims are the keys that the bets start payouts under, in order.
func claims(bets []bet) []string {
	keys := []string{}
	for _, b := range bets {
		if b.Claim != "" {
			keys = append(keys, b.Claim)
		}
	}
	return keys
}

func hasClaim(m *restatestart.Message[bet]) bool { return m.Value.Claim != "" }

func payoutOf(m *restatestart.Message[bet]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: cmp.Or(m.Value.Workflow, payout.Workflow),
		Key:      m.Value.Claim,
		Input:    payout.Input{BetID: m.Value.ID, Amount: m.Value.Amount},
	}, nil
}

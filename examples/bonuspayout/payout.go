package main

import "github.com/redisevents/restatestart"

const (
	topic    = "bets_settled"
	workflow = "BonusPayout"
)

// BetSettled is a message of the topic.
type BetSettled struct {
	BetID       string `json:"betId"`
	ClaimID     string `json:"claimId"` // of the bonus claim that the bet fulfils; empty for most bets
	AmountCents int64  `json:"amountCents"`
}

// PayoutInput is the workflow's input.
type PayoutInput struct {
	BetID       string `json:"betId"`
	AmountCents int64  `json:"amountCents"`
}

// hasClaim is the Keep: only a bet with a claim earns a payout.
func hasClaim(m *restatestart.Message[BetSettled]) bool { return m.Value.ClaimID != "" }

// toPayout is the Map. The claim is the workflow key, so that it is paid once, however often its bet is delivered.
func toPayout(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: workflow,
		Key:      m.Value.ClaimID,
		Input:    PayoutInput{BetID: m.Value.BetID, AmountCents: m.Value.AmountCents},
	}, nil
}

// newStarter is shared by the service and its tests.
func newStarter(options restatestart.Options) (*restatestart.Starter[BetSettled], error) {
	return restatestart.New(hasClaim, toPayout, options)
}

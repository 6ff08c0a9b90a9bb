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

// newStarter starts the workflows of examples/bonuspayout.
func newStarter(options restatestart.Options) (*restatestart.Starter[BetSettled], error) {
	return restatestart.New(
		func(m *restatestart.Message[BetSettled]) bool { return m.Value.ClaimID != "" },
		func(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
			return restatestart.Start{
				Workflow: workflow,
				Key:      m.Value.ClaimID,
				Input:    PayoutInput{BetID: m.Value.BetID, AmountCents: m.Value.AmountCents},
			}, nil
		},
		options)
}

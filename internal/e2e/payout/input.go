// Package payout is a workflow service that remembers what it ran, so that a test can hold Restate's word against it.
package payout

const (
	// Workflow is the name under which a service serves when it was given none.
	Workflow = "BonusPayout"
	// Handler is the name of the workflow's one handler.
	Handler = "run"
)

// Input is what one start carries.
type Input struct {
	BetID  string  `json:"betId"`
	Amount float64 `json:"amount"`
}

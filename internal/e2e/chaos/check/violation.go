package check

import (
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Kind is a kind of violation.
type Kind string

// The kinds.
const (
	Passed      Kind = "a position passed a start that was not accepted"
	Backward    Kind = "a position moved back"
	Disorder    Kind = "a start overtook an earlier one of its key"
	Lost        Kind = "a kept entry was never accepted"
	NeverRan    Kind = "a key never ran"
	RanTwice    Kind = "a key ran more than once"
	WrongInput  Kind = "a key ran with the input of another entry than its first"
	Foreign     Kind = "a start that no entry asked for"
	Vanished    Kind = "an acknowledged message is in no stream"
	NotAtTheEnd Kind = "a position is not at the end of its stream"
)

// Violation is one promise that was not kept.
type Violation struct {
	Kind      Kind
	Partition int // -1 when it is unknown
	Entry     wire.ID
	Key       string
	At        time.Time // zero when it was only found at the end
	Detail    string
}

// String names everything that is known.
func (v Violation) String() string {
	text := string(v.Kind)
	if v.Partition >= 0 {
		text += fmt.Sprintf(", partition %d", v.Partition)
	}
	if !v.Entry.IsZero() {
		text += ", entry " + v.Entry.String()
	}
	if v.Key != "" {
		text += ", key " + v.Key
	}
	if v.Detail != "" {
		text += ": " + v.Detail
	}
	return text
}

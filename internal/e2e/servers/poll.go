package servers

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is the pause between two looks at a server that is not ready yet.
const pollInterval = 20 * time.Millisecond

// poll calls look until it says that it is finished or limit or ctx is over. It returns look's last error, or nil when
// look finished without one.
func poll(ctx context.Context, limit time.Duration, look func(context.Context) (finished bool, err error)) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		finished, err := look(bounded)
		if finished {
			return err
		}
		// What the end of the context does to a look hides the reason that the looks before it gave.
		if err != nil && (last == nil || bounded.Err() == nil) {
			last = err
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), last)
			}
			return fmt.Errorf("gave up after %s: %w", limit, last)
		case <-ticker.C:
		}
	}
}

package chaos_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// The flags by which a run is repeated, or made longer.
var (
	seedFlag     = flag.Uint64("chaos.seed", 0, "seed of the faults; 0 chooses one")
	durationFlag = flag.Duration("chaos.duration", 2*time.Minute, "how long the mixed faults last; those of failovers and of slots last a quarter of it each")
)

func TestMain(m *testing.M) {
	// go-redis writes a line for every refused connection, and these tests kill servers.
	redis.SetLogger(&logging.VoidLogger{})
	if config := os.Getenv(consumerVariable); config != "" {
		os.Exit(runConsumer(config))
	}
	goleak.VerifyTestMain(m)
}

// seed is that of the flag, or a new one.
func seed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	const few = 1_000_000 // digits to type again
	return 1 + rand.Uint64N(few)
}

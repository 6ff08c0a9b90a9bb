package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestMain(m *testing.M) {
	// go-redis writes a line for every refused connection, and these tests kill servers.
	redis.SetLogger(&logging.VoidLogger{})
	if os.Getenv(orphanVariable) != "" {
		leaveOrphan()
	}
	if config := os.Getenv(serviceVariable); config != "" {
		os.Exit(runService(config))
	}
	fmt.Println("e2e:", servers.Versions(context.Background()))
	goleak.VerifyTestMain(m)
}

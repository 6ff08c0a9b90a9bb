// Package conformance_test holds a real restate-server to the recorded answers that the imitation in package
// restatetest is held to as well. It has a package of its own so that it can be run alone for several versions.
package conformance_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestMain(m *testing.M) {
	fmt.Println("e2e:", servers.Versions(context.Background()))
	goleak.VerifyTestMain(m)
}

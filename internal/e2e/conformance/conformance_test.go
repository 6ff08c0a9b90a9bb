// Package conformance_test holds a real restate-server to the recorded answers that the fake ingress of package restatetest
// is held to as well. It is a separate package so that it can be run alone for several versions.
package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/conformance"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestMain(m *testing.M) {
	fmt.Println("e2e:", servers.Versions(context.Background()))
	goleak.VerifyTestMain(m)
}

func TestRealServerConforms(t *testing.T) { //nolint:paralleltest // one server at a time, as their memory allows
	suite, err := conformance.Load(os.DirFS("../../../testdata/conformance"))
	require.NoError(t, err)
	var version string
	var cases int
	for _, name := range slices.Sorted(maps.Keys(suite.Profiles)) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			profile := suite.Profiles[name]
			restate := started(t, profile)
			ingress, err := url.Parse(restate.Ingress())
			require.NoError(t, err)
			tally := suite.Run(t, conformance.Target{
				Name: "restate-server", Version: restate.Version(), Profile: name,
				Dial: func(ctx context.Context) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", ingress.Host)
				},
			})
			t.Logf("restate-server %s, profile %s: %s", restate.Version(), name, tally)
			version = restate.Version()
			cases += tally.Cases
			for _, service := range profile.Services {
				if !service.Private {
					assertRuns(t, restate, service.Name)
				}
			}
		})
	}
	t.Logf("restate-server %s is held to %d of %d cases", version, cases, len(suite.Cases))
}

// started starts a restate-server set up by a profile.
func started(t *testing.T, profile conformance.Profile) *servers.Restate {
	t.Helper()
	var limits []string
	if profile.BodyLimit > 0 {
		limits = append(limits, fmt.Sprintf("RESTATE_INGRESS__REQUEST_SIZE_LIMIT=%d B", profile.BodyLimit))
	}
	if profile.ConcurrencyLimit > 0 {
		limits = append(limits, fmt.Sprintf("RESTATE_INGRESS__CONCURRENT_API_REQUESTS_LIMIT=%d", profile.ConcurrencyLimit))
	}
	restate := servers.StartRestate(t, servers.RestateOptions{Env: limits})
	if len(profile.Services) > 0 {
		_, err := restate.Register(t.Context(), serveProfile(t, profile))
		require.NoError(t, err)
	}
	return restate
}

// assertRuns checks that the server and the SDK understand each other: everything that was accepted for a service also
// runs.
func assertRuns(t *testing.T, restate *servers.Restate, service string) {
	t.Helper()
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		counts, err := restate.CountByStatus(t.Context(), service)
		assert.NoError(c, err)
		delete(counts, "scheduled")
		delete(counts, "completed")
		assert.Empty(c, counts, "runs of %s that did not complete", service)
	}, 15*time.Second, 50*time.Millisecond)
}

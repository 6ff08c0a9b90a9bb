package conformance_test

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/conformance"
	"github.com/redisevents/restatestart/restatetest"
)

const (
	fakedVersion  = "1.7.12" // of restate-server
	maxDeviations = 1        // may only be lowered
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T) *conformance.Suite {
	t.Helper()
	suite, err := conformance.Load(os.DirFS("../../testdata/conformance"))
	require.NoError(t, err)
	return suite
}

func TestTheFakeConforms(t *testing.T) { //nolint:paralleltest // the subtests are counted
	suite := load(t)
	var cases, deviations int
	for _, name := range slices.Sorted(maps.Keys(suite.Profiles)) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			server := startFake(t, suite.Profiles[name])
			tally := suite.Run(t, conformance.Target{
				Name: "restatetest", Version: fakedVersion, Profile: name, Fake: true,
				Dial: func(ctx context.Context) (net.Conn, error) { return server.Dial(ctx, "tcp", "") },
			})
			cases += tally.Cases
			deviations += tally.Deviations
			t.Logf("restatetest, profile %s: %s", name, tally)
		})
	}
	t.Logf("restatetest: %d cases of restate-server %s, of which it answers %d differently", cases, fakedVersion, deviations)
	assert.LessOrEqual(t, deviations, maxDeviations)
}

// startFake starts a server with a profile. It listens on TCP, since a case with "cut" closes a connection by half.
func startFake(t *testing.T, profile conformance.Profile) *restatetest.Server {
	t.Helper()
	options := []restatetest.Option{
		restatetest.WithBodyLimit(profile.BodyLimit),
		restatetest.WithConcurrencyLimit(profile.ConcurrencyLimit),
	}
	for _, service := range profile.Services {
		options = append(options, declared(service)...)
	}
	server, err := restatetest.Listen("127.0.0.1:0", options...)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	if len(profile.Services) == 0 {
		server.Unregister("Any") // without declarations it would accept every name
	}
	return server
}

// declared returns the options that declare a service.
func declared(service conformance.Service) []restatetest.Option {
	declare := map[conformance.Kind]func(string, ...string) restatetest.Option{
		conformance.KindWorkflow: restatetest.WithWorkflow,
		conformance.KindService:  restatetest.WithService,
		conformance.KindObject:   restatetest.WithObject,
	}[service.Kind]
	inputs := map[conformance.Input]restatetest.Input{
		conformance.InputJSON:  restatetest.InputJSON,
		conformance.InputNone:  restatetest.InputNone,
		conformance.InputBytes: restatetest.InputBytes,
	}
	var options []restatetest.Option
	var names []string
	for _, handler := range service.Handlers {
		names = append(names, handler.Name)
		if handler.Shared && service.Kind == conformance.KindWorkflow {
			options = append(options, restatetest.WithShared(service.Name, handler.Name))
			continue
		}
		options = append(options, declare(service.Name, handler.Name))
	}
	for _, handler := range service.Handlers {
		options = append(options, restatetest.WithInput(service.Name, handler.Name, inputs[handler.Input]))
	}
	if service.Private {
		options = append(options, restatetest.WithPrivate(service.Name, names...))
	}
	return options
}

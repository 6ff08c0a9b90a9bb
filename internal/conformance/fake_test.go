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

	"github.com/redisevents/restatestart/internal/conformance"
	"github.com/redisevents/restatestart/restatetest"
)

const (
	// imitated is the version of restate-server that package restatetest imitates.
	imitated = "1.7.12"
	// tolerated is how many cases the imitation may answer otherwise. It goes down only.
	tolerated = 1
)

func load(t *testing.T) *conformance.Suite {
	t.Helper()
	suite, err := conformance.Load(os.DirFS("../../testdata/conformance"))
	require.NoError(t, err)
	return suite
}

func TestImitationConforms(t *testing.T) { //nolint:paralleltest // its parts are counted when they are done
	suite := load(t)
	var cases, otherwise int
	for _, name := range slices.Sorted(maps.Keys(suite.Profiles)) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			server := imitation(t, suite.Profiles[name])
			tally := suite.Run(t, conformance.Target{
				Name: "restatetest", Version: imitated, Profile: name, Fake: true,
				Dial: func(ctx context.Context) (net.Conn, error) { return server.Dial(ctx, "tcp", "") },
			})
			cases += tally.Cases
			otherwise += tally.NotImitated
			t.Logf("restatetest, profile %s: %s", name, tally)
		})
	}
	t.Logf("restatetest is held to %d cases of restate-server %s and answers %d of them otherwise", cases, imitated, otherwise)
	assert.LessOrEqual(t, otherwise, tolerated)
}

// imitation starts a server set up by a profile. It is on TCP, because a body that is cut off needs a connection that
// can be closed by half.
func imitation(t *testing.T, profile conformance.Profile) *restatetest.Server {
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
		server.Unregister("Any") // without a declaration every name would be accepted
	}
	return server
}

// declared is the options that declare a service.
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

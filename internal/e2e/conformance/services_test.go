package conformance_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/encoding"
	"github.com/restatedev/sdk-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/conformance"
)

// serveProfile serves the services of a profile on a loopback port until the test ends, and returns where. Their
// handlers do nothing.
func serveProfile(t *testing.T, profile conformance.Profile) string {
	t.Helper()
	endpoint := server.NewRestate().WithLogger(slog.DiscardHandler, true)
	for _, service := range profile.Services {
		endpoint.Bind(definition(service))
	}
	handler, err := endpoint.Handler()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serving := &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: 5 * time.Second}
	serving.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		// It returns when the cleanup closes the listener, with an error that says so.
		_ = serving.Serve(listener)
	}()
	t.Cleanup(func() {
		assert.NoError(t, serving.Close())
		<-served
	})
	return "http://" + listener.Addr().String()
}

// definition is a service of a profile as the SDK declares it.
func definition(service conformance.Service) sdk.ServiceDefinition {
	private := sdk.WithIngressPrivate(service.Private)
	switch service.Kind {
	case conformance.KindWorkflow:
		return workflow(service, private)
	case conformance.KindObject:
		object := sdk.NewObject(service.Name, private)
		for _, handler := range service.Handlers {
			switch (variant{handler.Input, handler.Shared}) {
			case variant{conformance.InputJSON, false}:
				object.Handler(handler.Name, sdk.NewObjectHandler(idle[sdk.ObjectContext, struct{}]))
			case variant{conformance.InputJSON, true}:
				object.Handler(handler.Name, sdk.NewObjectSharedHandler(idle[sdk.ObjectSharedContext, struct{}]))
			default:
				undeclared(service, handler)
			}
		}
		return object
	case conformance.KindService:
		plain := sdk.NewService(service.Name, private)
		for _, handler := range service.Handlers {
			if handler.Input != conformance.InputJSON {
				undeclared(service, handler)
			}
			plain.Handler(handler.Name, sdk.NewServiceHandler(idle[sdk.Context, struct{}]))
		}
		return plain
	}
	panic("there is no kind " + service.Kind)
}

func workflow(service conformance.Service, option sdk.ServiceDefinitionOption) sdk.ServiceDefinition {
	workflow := sdk.NewWorkflow(service.Name, option)
	for _, handler := range service.Handlers {
		switch (variant{handler.Input, handler.Shared}) {
		case variant{conformance.InputJSON, false}:
			workflow.Handler(handler.Name, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, struct{}]))
		case variant{conformance.InputNone, false}:
			workflow.Handler(handler.Name, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, sdk.Void]))
		case variant{conformance.InputBytes, false}:
			workflow.Handler(handler.Name,
				sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, []byte], sdk.WithInputCodec(encoding.BinaryCodec)))
		case variant{conformance.InputNone, true}:
			workflow.Handler(handler.Name, sdk.NewWorkflowSharedHandler(idle[sdk.WorkflowSharedContext, sdk.Void]))
		default:
			undeclared(service, handler)
		}
	}
	return workflow
}

// variant is what tells the handlers of one kind of service apart.
type variant struct {
	input  conformance.Input
	shared bool
}

// undeclared stops a profile that has more than is declared here.
func undeclared(service conformance.Service, handler conformance.Handler) {
	panic(fmt.Sprintf("declare a handler such as %+v of a %s here first", handler, service.Kind))
}

// idle is a handler that does nothing.
func idle[C, I any](C, I) (sdk.Void, error) { return sdk.Void{}, nil }

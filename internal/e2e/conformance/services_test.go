package conformance_test

import (
	"fmt"
	"testing"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/encoding"

	"github.com/redisevents/restatestart/internal/conformance"
	"github.com/redisevents/restatestart/internal/e2e/payout"
)

// serveProfile serves the services of a profile on a loopback port until the test ends, and returns where. Their
// handlers do nothing.
func serveProfile(t *testing.T, profile conformance.Profile) string {
	t.Helper()
	var definitions []sdk.ServiceDefinition
	for _, service := range profile.Services {
		definitions = append(definitions, definition(service))
	}
	return payout.StartServe(t, definitions...)
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

// undeclared stops a profile with a handler that is not declared here.
func undeclared(service conformance.Service, handler conformance.Handler) {
	panic(fmt.Sprintf("declare a handler such as %+v of a %s here first", handler, service.Kind))
}

// idle is a handler that does nothing.
func idle[C, I any](C, I) (sdk.Void, error) { return sdk.Void{}, nil }

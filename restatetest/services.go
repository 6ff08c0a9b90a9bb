package restatetest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Input is the kind of input a handler takes. It decides which content types and bodies are accepted.
type Input int

// The kinds of input.
const (
	// InputJSON takes application/json and any body but an empty one. That the body is JSON is not checked: the real ingress
	// accepts it, and the run fails. It is the zero value, and what handlers take unless [WithInput] says otherwise.
	InputJSON Input = iota
	// InputNone takes neither a content type nor a body.
	InputNone
	// InputBytes takes application/octet-stream with any body, or neither a content type nor a body.
	InputBytes
)

// kind decides the shape of the path and what makes a send a repeat.
type kind int

const (
	kindWorkflow kind = iota // of every name that is not declared
	kindService
	kindObject
)

// services are the declared workflows, services and objects; nil until there is a first declaration, which means that every name
// is accepted as a workflow's.
type services map[string]*service

type service struct {
	kind     kind
	handlers map[string]handler
	private  bool
	gone     bool // unregistered; its kind is remembered for when it comes back
}

type handler struct {
	input  Input
	shared bool
}

// declare returns the service of this name, without handlers if it is new or had gone. It is called with s.mu held, or before
// the server starts.
func (s *Server) declare(name string) *service {
	if s.services == nil {
		s.services = make(services)
	}
	declared := s.services[name]
	if declared == nil {
		declared = &service{gone: true}
		s.services[name] = declared
	}
	if declared.gone {
		*declared = service{kind: declared.kind, handlers: make(map[string]handler)}
	}
	return declared
}

// find returns nil for a name that is not registered.
func (s services) find(name string) *service {
	if declared := s[name]; declared != nil && !declared.gone {
		return declared
	}
	return nil
}

// kindOf is called with names that may be unknown.
func (s services) kindOf(name string) kind {
	if declared := s[name]; declared != nil {
		return declared.kind
	}
	return kindWorkflow
}

// once reports whether the handler is one that runs once per key: a workflow's, not shared.
func (s services) once(name, handler string) bool {
	declared := s.find(name)
	return s.kindOf(name) == kindWorkflow && (declared == nil || !declared.handlers[handler].shared)
}

// add gives the service these handlers, [DefaultHandler] if none are named, and leaves those it has alone.
func (s *service) add(handlers []string) {
	if len(handlers) == 0 {
		handlers = []string{DefaultHandler}
	}
	for _, name := range handlers {
		if _, known := s.handlers[name]; !known {
			s.handlers[name] = handler{}
		}
	}
}

// Register declares a workflow as [WithWorkflow] does, while the server runs: a deployment registered while messages wait.
// Handlers the workflow already has are kept. Keys started before are still known. A name that was declared as a service or an
// object before stays one.
func (s *Server) Register(name string, handlers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declare(name).add(handlers)
}

// Unregister takes the declaration of a workflow, service or object back: it is answered 404 from now on, also for keys started
// before. A server that accepted every name accepts none after it, so Unregister of any name is also the way to begin with
// nothing registered.
func (s *Server) Unregister(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declare(name).gone = true
}

// names are sorted; the real server's have no order.
func (s services) names() []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !s[name].gone {
			names = append(names, name)
		}
	}
	return names
}

// refuses says why content of this header and body cannot be the handler's input, or nothing.
func (input Input) refuses(header http.Header, body []byte) string {
	contentType, given := "", len(header["Content-Type"]) > 0
	if given {
		contentType = header["Content-Type"][0]
	}
	expected := "application/json"
	switch input {
	case InputJSON:
	case InputNone:
		if given || len(body) > 0 {
			return "Expected body and content-type to be empty, but wasn't with content-type '" + rustOption(contentType, given) + "'"
		}
		return ""
	case InputBytes:
		if !given && len(body) == 0 {
			return ""
		}
		expected = "application/octet-stream"
	}
	base, _, _ := strings.Cut(contentType, ";")
	switch {
	case !given:
		return "Empty content-type"
	case strings.TrimSpace(base) != expected:
		return fmt.Sprintf("Content-type '%s' does not match '%s'", contentType, expected)
	case input == InputJSON && len(body) == 0:
		return "Empty body not allowed"
	}
	return ""
}

// rustOption writes an optional string as the real server's messages do.
func rustOption(value string, given bool) string {
	if !given {
		return "None"
	}
	return fmt.Sprintf("Some(%q)", value)
}

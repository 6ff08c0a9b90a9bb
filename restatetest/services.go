package restatetest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Input is the kind of input that a handler accepts.
type Input int

// The kinds of input.
const (
	// InputJSON accepts application/json with any body but an empty one, even one that is not JSON: the real ingress accepts it, and
	// the run fails. The default.
	InputJSON Input = iota
	// InputNone accepts neither a content type nor a body.
	InputNone
	// InputBytes accepts application/octet-stream with any body, or neither a content type nor a body.
	InputBytes
)

// kind decides the form of the path and what makes a send a repeat.
type kind int

const (
	kindWorkflow kind = iota // also of names that are not declared
	kindService
	kindObject
)

// services are the declared workflows, services and objects. Nil, before the first declaration, accepts every name as a workflow's.
type services map[string]*service

type service struct {
	kind         kind
	handlers     map[string]handler
	private      bool
	unregistered bool // its kind is kept for the next Register
}

type handler struct {
	input  Input
	shared bool
}

// declare returns the service of this name, without handlers if it is new or was unregistered. It is called with s.mu held, or before the
// server starts.
func (s *Server) declare(name string) *service {
	if s.services == nil {
		s.services = make(services)
	}
	declared := s.services[name]
	if declared == nil {
		declared = &service{unregistered: true}
		s.services[name] = declared
	}
	if declared.unregistered {
		*declared = service{kind: declared.kind, handlers: make(map[string]handler)}
	}
	return declared
}

// find returns nil for a name that is not registered.
func (s services) find(name string) *service {
	if declared := s[name]; declared != nil && !declared.unregistered {
		return declared
	}
	return nil
}

// kindOf returns the kind of a name, which may be unknown.
func (s services) kindOf(name string) kind {
	if declared := s[name]; declared != nil {
		return declared.kind
	}
	return kindWorkflow
}

// once reports whether the handler runs once per key: a workflow's that is not shared.
func (s services) once(name, handler string) bool {
	declared := s.find(name)
	return s.kindOf(name) == kindWorkflow && (declared == nil || !declared.handlers[handler].shared)
}

// add adds these handlers, or DefaultHandler if there are none, and keeps the existing ones.
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

// Register declares a workflow as [WithWorkflow] does, while the server runs: a deployment that is registered while messages wait. It
// keeps the workflow's existing handlers and started keys. A name that was declared as a service or object stays one.
func (s *Server) Register(name string, handlers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declare(name).add(handlers)
}

// Unregister removes the declaration of a workflow, service or object: requests for it are answered 404, even for started keys. A server
// without declarations, which accepts every name, accepts none after it: Unregister any name to begin with nothing registered.
func (s *Server) Unregister(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declare(name).unregistered = true
}

// names returns the registered names, sorted. The real server's have no order.
func (s services) names() []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !s[name].unregistered {
			names = append(names, name)
		}
	}
	return names
}

// refuses says why this header and body cannot be the handler's input. Empty means that they can.
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

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
	// accepts it, and the run fails.
	InputJSON Input = iota
	// InputNone takes neither a content type nor a body.
	InputNone
	// InputBytes takes application/octet-stream with any body, or neither a content type nor a body.
	InputBytes
)

// services are the declared workflows; nil until there is a first declaration, which means that every name is accepted.
type services map[string]*service

type service struct {
	handlers map[string]Input
	private  bool
}

func (s *services) declare(name string) *service {
	if *s == nil {
		*s = make(services)
	}
	if (*s)[name] == nil {
		(*s)[name] = &service{handlers: make(map[string]Input)}
	}
	return (*s)[name]
}

// Register declares a workflow as [WithWorkflow] does, while the server runs: a deployment registered while messages wait.
// Handlers the workflow already has are kept. Keys started before are still known.
func (s *Server) Register(name string, handlers ...string) {
	if len(handlers) == 0 {
		handlers = []string{DefaultHandler}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	declared := s.services.declare(name)
	for _, handler := range handlers {
		if _, known := declared.handlers[handler]; !known {
			declared.handlers[handler] = InputJSON
		}
	}
}

// Unregister takes a workflow's declaration back: it is answered 404 from now on. A server that accepted every name accepts
// none after it, so Unregister of any name is also the way to begin with nothing registered.
func (s *Server) Unregister(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services.declare(name)
	delete(s.services, name)
}

// names are sorted; the real server's have no order.
func (s *services) names() []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(*s))))
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

package restatetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// refusal is an error answer of the ingress itself.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Source  string `json:"source"`
}

func refuse(code int, message string) *refusal {
	return &refusal{Code: code, Message: message, Source: "ingress"}
}

const (
	overloaded    = "too many requests, the ingress is overloaded. Retry later."
	badPath       = "bad path, expected either /:service-name/:handler or /:object-name/:object-key/:handler"
	badRestate    = "bad path, expected /restate/call/:service/:handler, /restate/send/:service/:handler, /restate/scope/:scope/call/:service/:handler, /restate/attach/:invocation_id, /restate/output/:invocation_id, or /restate/lookup"
	idempotency   = "cannot use the idempotency key with workflow handlers. The handler invocation will already be idempotent by the workflow key itself."
	notPublic     = "the invoked service is not public"
	bodyTooLong   = "cannot read body: LengthLimitError"
	bodyCutOff    = "cannot read body: hyper::Error(Body, Custom { kind: UnexpectedEof, error: IncompleteBody })"
	notAllowed    = "method not allowed"
	notFound      = "not found"
	unsupported   = "restatetest supports only sends and the health check"
	corsVary      = "origin, access-control-request-method, access-control-request-headers"
	maxTarget     = 65534
	maxHeaderRows = 100
	// maxHeaderBytes applies to HTTP/2 only.
	maxHeaderBytes = 16384
)

func unknownService(name string) *refusal {
	return refuse(http.StatusNotFound,
		fmt.Sprintf("service '%s' not found, make sure to register the service before calling it.", name))
}

func unknownHandler(service, handler string) *refusal {
	return refuse(http.StatusNotFound, fmt.Sprintf(
		"the service '%s' exists, but the handler '%s' was not found, check that the handler exists in the latest registered service version.",
		service, handler))
}

func badHeader(name string) *refusal {
	return refuse(http.StatusBadRequest, "bad header "+strings.ToLower(name)+": ToStrError { _priv: () }")
}

// write sends the refusal.
func (f *refusal) write(w http.ResponseWriter) {
	header := w.Header()
	header.Set("X-Restate-Error-Source", f.Source)
	writeJSON(w, f.Code, f)
}

// writeJSON sends value as the ingress writes JSON: without HTML escapes or a final newline. A content type that a step set with
// WithHeader stays.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) //nolint:errchkjson // structs of strings and numbers
	header := w.Header()
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	header["Vary"] = []string{corsVary}
	header.Set("Access-Control-Allow-Credentials", "true")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimSuffix(body.Bytes(), []byte{'\n'}))
}

// writeBare sends the empty answer of the real server's HTTP parser, which closes an HTTP/1.1 connection.
func (x *exchange) writeBare(status int) {
	if x.r.ProtoMajor < 2 {
		x.w.Header().Set("Connection", "close")
	}
	x.w.WriteHeader(status)
}

package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Counts are a proxy's answers by kind.
type Counts struct {
	Accepted int // started by this request
	Repeated int // started before: PreviouslyAccepted
	Refused  int // any status but 2xx
	Broken   int // no answer
}

func (c Counts) String() string {
	return fmt.Sprintf("%d accepted, %d previously accepted, %d refused, %d unanswered", c.Accepted, c.Repeated, c.Refused, c.Broken)
}

// Ingress is a proxy in front of Restate's ingress that counts the answers. It can hold the starts of certain keys, either on
// their way to Restate or, once Restate has answered, on the way back. Where Restate does not answer, neither does the proxy: it
// breaks the connection.
type Ingress struct {
	URL string
	// Requested is called before a request is forwarded, Answered before its answer is. Set them before the first request.
	Requested func(request *http.Request, body []byte)
	Answered  func(body []byte, code int, text []byte)
	// Gate is held by each request on its way: locking it keeps them waiting.
	Gate sync.RWMutex

	transport *http.Transport

	mu      sync.Mutex
	counts  Counts
	holds   func(key string) bool
	answers bool          // hold the answers
	waiting int           // held starts
	opened  chan struct{} // closed while nothing is held
}

// NewIngress returns a proxy to an ingress. It ends with the test.
func NewIngress(t *testing.T, ingress string) *Ingress {
	t.Helper()
	target, err := url.Parse(ingress)
	require.NoError(t, err)
	// As many idle connections as are in use at once.
	i := &Ingress{transport: &http.Transport{MaxIdleConnsPerHost: 64}, opened: make(chan struct{})}
	close(i.opened)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    i,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // of clients that were killed
	})
	i.URL = proxy.URL
	t.Cleanup(func() {
		i.Open()
		proxy.Close()
		i.transport.CloseIdleConnections()
	})
	return i
}

// Counts returns the answers so far.
func (i *Ingress) Counts() Counts {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts
}

// AwaitAccepted waits until n starts were accepted for the first time.
func (i *Ingress) AwaitAccepted(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return i.Counts().Accepted >= n }, Patience, time.Millisecond, "%d starts", n)
}

// Hold holds the starts of certain keys: their answers, or the requests themselves.
func (i *Ingress) Hold(answers bool, holds func(key string) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds, i.answers, i.opened = holds, answers, make(chan struct{})
}

// Open releases what is held and holds nothing more.
func (i *Ingress) Open() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds = nil
	select {
	case <-i.opened:
	default:
		close(i.opened)
	}
}

// AwaitHeld waits until exactly n starts are held.
func (i *Ingress) AwaitHeld(t *testing.T, n int) {
	t.Helper()
	Await(t, func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.waiting == n
	}, "%d starts are held", n)
}

// RoundTrip implements http.RoundTripper for the proxy.
func (i *Ingress) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body) // to the end: the proxy notices only then that its client is gone
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	i.Gate.RLock()
	defer i.Gate.RUnlock()
	if i.Requested != nil {
		i.Requested(request, body)
	}
	if err := i.hold(request, false); err != nil {
		return nil, err
	}
	response, text, err := i.forward(request)
	if err != nil {
		i.count(func(c *Counts) { c.Broken++ })
		return nil, err
	}
	var answer struct{ Status string }
	switch err := json.Unmarshal(text, &answer); {
	case response.StatusCode/100 != 2:
		i.count(func(c *Counts) { c.Refused++ })
	case err == nil && answer.Status == "PreviouslyAccepted":
		i.count(func(c *Counts) { c.Repeated++ })
	default:
		i.count(func(c *Counts) { c.Accepted++ })
	}
	if i.Answered != nil {
		i.Answered(body, response.StatusCode, text)
	}
	if err := i.hold(request, true); err != nil {
		return nil, err
	}
	return response, nil
}

func (i *Ingress) forward(request *http.Request) (*http.Response, []byte, error) {
	response, err := i.transport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // nothing of it is left to read
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, text, err
}

func (i *Ingress) count(one func(*Counts)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	one(&i.counts)
}

// hold waits while the start is held, at most until its client is gone.
func (i *Ingress) hold(request *http.Request, answer bool) error {
	key := strings.Split(request.URL.Path, "/")[2]
	i.mu.Lock()
	opened, holds := i.opened, i.holds != nil && i.answers == answer && i.holds(key)
	if holds {
		i.waiting++
	}
	i.mu.Unlock()
	if !holds {
		return nil
	}
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.waiting--
	}()
	select {
	case <-opened:
		return nil
	case <-request.Context().Done():
		return request.Context().Err()
	}
}

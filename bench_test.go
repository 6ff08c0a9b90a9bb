package restatestart_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// canned answers every request at once, so that what is measured is the client's side alone.
func canned(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: http.StatusAccepted, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"invocationId":"inv_1aSJzH0vIdMD6CQvVnwwCmV56ugtwjHkuj","status":"Accepted"}`)),
	}, nil
}

// One batch of 100 kept messages, held against 100 requests of a bare http.Client on the same answers: x-bare is
// how many times as long a start takes, which is the library's own part of it.
func BenchmarkHandle(b *testing.B) {
	client := &http.Client{Transport: roundTripper(canned)}
	starter, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: "http://restate:8080", HTTPClient: client})
	require.NoError(b, err)
	batch := batchOf(keysOf(100)...)

	b.ReportAllocs()
	for b.Loop() {
		if err := starter.Handle(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	handled := b.Elapsed()
	rounds := b.N

	began := time.Now()
	for range rounds {
		for _, message := range batch {
			bare(b, client, message.Value.Key)
		}
	}
	b.ReportMetric(float64(handled)/float64(time.Since(began)), "x-bare")
	b.ReportMetric(float64(handled.Nanoseconds())/float64(rounds*len(batch)), "ns/start")
}

func bare(b testing.TB, client *http.Client, key string) {
	b.Helper()
	body := bytes.NewReader([]byte(`{"key":"` + key + `"}`))
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://restate:8080/Payout/"+key+"/run/send", body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// One batch of which nothing is kept: what most messages cost.
func BenchmarkHandleNothingKept(b *testing.B) {
	starter, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: "http://restate:8080"})
	require.NoError(b, err)
	batch := batchOf(make([]string, 100)...)
	b.ReportAllocs()
	for b.Loop() {
		if err := starter.Handle(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

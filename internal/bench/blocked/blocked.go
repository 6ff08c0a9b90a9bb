package blocked

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/bench/child"
	"github.com/redisevents/restatestart/redisstream"
)

// Setup is what is waiting, and for how long.
type Setup struct {
	Partitions int           `json:"partitions"`
	Waiting    int           `json:"waiting"`   // entries, in all partitions together
	EntrySize  int           `json:"entrySize"` // bytes of an entry's body
	Blocked    time.Duration `json:"blocked"`
}

// Held is what was found.
type Held struct {
	Most     int // bytes of the heap after a collection, beyond what there was before Run: the maximum of all samples
	Samples  int
	Allowed  int // ReadAhead × BatchSize × EntrySize × 2, of every partition
	Requests int // POSTs that were refused
}

// interval is the time between two samples. Nothing in the library takes as long, so that samples are taken at any point.
const interval = 97 * time.Second

// Serve is the main of a process that measures. Virtual time is to be had only within a test, which is why it is one.
func Serve() {
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "blocked", F: serve}}, nil, nil)
}

func serve(t *testing.T) {
	t.Helper()
	err := child.Serve(func(raw json.RawMessage) (any, error) {
		var setup Setup
		if err := json.Unmarshal(raw, &setup); err != nil {
			return nil, err
		}
		return Measure(t, setup)
	})
	if err != nil {
		t.Error(err)
	}
}

// Measure lets a Consumer run against an ingress that refuses everything, and samples the heap.
func Measure(t *testing.T, setup Setup) (held Held, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { held, err = measure(t, setup) })
	return held, err
}

type anything struct{}

func refuse(requests *atomic.Int64) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, request.Body)
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Request: request, Body: io.NopCloser(strings.NewReader("down"))}, nil
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func measure(t *testing.T, setup Setup) (Held, error) {
	t.Helper()
	body := `{"note":"` + strings.Repeat("x", setup.EntrySize-len(`{"note":""}`)) + `"}`
	server := &endless{length: setup.Waiting / setup.Partitions, fields: []string{"b", body, "t", "BetSettled", "k", "c-1"}}
	const buffer = 4 << 10
	client := redis.NewClient(&redis.Options{
		Dialer: server.dial, Protocol: 2, DisableIdentity: true, PoolSize: setup.Partitions + 1,
		// By default they have up to 128 KiB, which is go-redis's affair, and how many of them there are is chance.
		ReadBufferSize: buffer, WriteBufferSize: buffer, PipelineReadBufferSize: buffer, PipelineWriteBufferSize: buffer,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = client.Close() }()
	var requests atomic.Int64
	starter, err := restatestart.New(nil, func(m *restatestart.Message[anything]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "BonusPayout", Key: m.ID + m.Stream, Input: m.Body}, nil
	}, restatestart.Options{Ingress: "http://restate:8080", HTTPClient: &http.Client{Transport: refuse(&requests)}})
	if err != nil {
		return Held{}, err
	}
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("bets"), redisstream.JSON[anything], starter, redisstream.Options{
		Consumer: "blocked", Partitions: setup.Partitions,
	})
	if err != nil {
		return Held{}, err
	}

	before := heap()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	held := Held{Allowed: redisstream.DefaultReadAhead * redisstream.DefaultBatchSize * setup.EntrySize * 2 * setup.Partitions}
	for end := time.Now().Add(setup.Blocked); time.Now().Before(end); {
		time.Sleep(interval)
		held.Most = max(held.Most, heap()-before)
		held.Samples++
	}
	blocked := 0
	for _, partition := range consumer.Status().Partitions {
		if partition.Blocked != nil && partition.Processed == 0 {
			blocked++
		}
	}
	stop()
	err = <-ended
	held.Requests = int(requests.Load())
	if err == nil && blocked != setup.Partitions {
		err = fmt.Errorf("%d of %d partitions were blocked", blocked, setup.Partitions)
	}
	return held, err
}

// heap is what is reachable, in bytes.
func heap() int {
	runtime.GC()
	runtime.GC() // what had a finalizer goes with the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

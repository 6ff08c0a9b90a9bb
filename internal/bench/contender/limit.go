package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// limit is a bare net/http client in a closed loop: no Redis, no JSON, no library. Nothing that is built on net/http
// can be faster by more than noise.
type limit struct {
	task   Task
	client *http.Client
	body   []byte
	query  string
}

func newLimit(task Task) *limit {
	body, err := json.Marshal(payout{BetID: "b-00000000", Amount: 12.5})
	if err != nil {
		panic(err)
	}
	l := &limit{task: task, client: tunedClient(task.Parallelism), body: body}
	if task.Delay > 0 {
		l.query = "?delay=" + strconv.FormatInt(task.Delay.Milliseconds(), 10) + "ms"
	}
	return l
}

func (l *limit) round(ctx context.Context, prefix string, watch *stopwatch) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	watch.begin()
	for range l.task.Parallelism {
		group.Go(func() error {
			for {
				n := next.Add(1) - 1
				if n >= int64(l.task.Messages) {
					return nil
				}
				if err := l.post(ctx, prefix+strconv.FormatInt(n, 10)); err != nil {
					return err
				}
			}
		})
	}
	err := group.Wait()
	watch.end()
	return err
}

func (l *limit) post(ctx context.Context, key string) error {
	target := l.task.Ingress + "/" + Workflow + "/" + key + "/" + Handler + "/send" + l.query
	return post(ctx, l.client, target, l.body)
}

func (l *limit) close() error {
	l.client.CloseIdleConnections()
	return nil
}

// post is a start without anything around it.
func post(ctx context.Context, client *http.Client, target string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return err
}

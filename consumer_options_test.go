package restatestart_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestRunReturnsWhatNoWaitingHeals(t *testing.T) {
	t.Parallel()
	for text, row := range map[string]func(*world){
		"ConsumerOptions.Partitions is 2, the topic has 4": func(w *world) { w.options.Partitions = 2 },
		"unknown wire version 2, this package reads 1":     func(w *world) { w.version = "2" },
		"pool of 4 connections is too small":               func(w *world) { w.pool = 4 },
		"redis: client is closed":                          func(w *world) { w.metaErr = redis.ErrClosed },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 4)
			row(w)
			w.run(&recorder{})
			err := <-w.result
			require.ErrorContains(t, err, text)
			assert.Equal(t, restatestart.StateStopped, w.consumer.Status().State)
			assert.Contains(t, w.consumer.Status().Error, text)
			w.cancel()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.pool = 5
		w.run(&recorder{})
		assert.Equal(t, 5, w.consumer.Status().Connections)
		require.ErrorContains(t, w.consumer.Run(t.Context()), "running already")
		require.NoError(t, w.stop())
		w.setMeta("4", "1", redis.ErrClosed)
		w.run(&recorder{})
		require.ErrorIs(t, <-w.result, redis.ErrClosed)
		w.cancel()
	})
}

func TestTopicMetaIsReadTolerantly(t *testing.T) {
	t.Parallel()
	for meta, want := range map[[2]string]int{
		{"", ""}: 1, {"3", ""}: 3, {"3", "one"}: 3, {"many", "1"}: 1, {"-4", "1"}: 1, {"0", "1"}: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.setMeta(meta[0], meta[1], nil)
			w.run(&recorder{})
			assert.Len(t, w.consumer.Status().Partitions, want, meta)
			require.NoError(t, w.stop())
		})
	}
}

// B22: where a run begins, with and without a stored position.
func TestStartFrom(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		from   restatestart.StartFrom
		stored uint64
		want   []string
		log    string
	}{
		"stored":                 {restatestart.FromStored(), 3, []string{"k4 k5", "later"}, ""},
		"nothing stored":         {restatestart.FromStored(), 0, []string{"k1 k2 k3 k4 k5", "later"}, "no stored position, starting from the beginning"},
		"beginning":              {restatestart.FromBeginning(), 3, []string{"k1 k2 k3 k4 k5", "later"}, "stored position passed over"},
		"now":                    {restatestart.FromNow(), 3, []string{"later"}, "stored position passed over"},
		"now, on nothing stored": {restatestart.FromNow(), 0, []string{"later"}, "start_from=now"},
		"a time":                 {restatestart.FromTime(time.UnixMilli(4)), 0, []string{"k4 k5", "later"}, "start_from=1970-01-01T00:00:00.004Z"},
		"a time before all":      {restatestart.FromTime(time.UnixMilli(-4)), 0, []string{"k1 k2 k3 k4 k5", "later"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.options.StartFrom = row.from
				w.publish(0, keysOf(5)...)
				if row.stored > 0 {
					_, err := w.store.Save(t.Context(), []position.Write{{ID: wire.ID{Ms: row.stored}}})
					require.NoError(t, err)
				}
				handler := &recorder{}
				w.run(handler)
				pass(5 * time.Second)
				w.publish(0, "later")
				pass(5 * time.Second)
				assert.Equal(t, row.want, handler.handed())
				assert.Equal(t, "6-0", w.position(0))
				if row.log != "" {
					assert.Positive(t, w.logged(row.log))
				}
				require.NoError(t, w.stop())
			})
		})
	}
}

// "Now" is an id from the first moment on: what comes between two reads, or during an outage, is not missed.
func TestStartFromNowIsResolvedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.StartFrom = restatestart.FromNow()
		w.publish(0, "old")
		handler := &recorder{}
		w.run(handler)
		pass(3 * time.Second)
		w.source.Fail(0, io.ErrUnexpectedEOF)
		pass(3 * time.Second)
		w.publish(0, "during")
		w.source.Fail(0, nil)
		pass(30 * time.Second)
		assert.Equal(t, []string{"during"}, handler.handed())
		require.NoError(t, w.stop())
	})
}

func TestNewConsumerNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "nowhere.invalid:1"})
	t.Cleanup(func() { _ = client.Close() })
	index := func(n int) *int { return &n }
	for field, change := range map[string]func(*restatestart.ConsumerOptions){
		"Consumer: a name is required":          func(o *restatestart.ConsumerOptions) { o.Consumer = "" },
		`Consumer: "x:meta" ends in :meta`:      func(o *restatestart.ConsumerOptions) { o.Consumer = "x:meta" },
		"Partitions: -1 is negative":            func(o *restatestart.ConsumerOptions) { o.Partitions = -1 },
		"BatchSize: -1 is negative":             func(o *restatestart.ConsumerOptions) { o.BatchSize = -1 },
		"Block: -1s is negative":                func(o *restatestart.ConsumerOptions) { o.Block = -time.Second },
		"Block: 1.5ms is not in whole":          func(o *restatestart.ConsumerOptions) { o.Block = 1500 * time.Microsecond },
		"ReadAhead: -1 is negative":             func(o *restatestart.ConsumerOptions) { o.ReadAhead = -1 },
		"PersistInterval: -1s is negative":      func(o *restatestart.ConsumerOptions) { o.PersistInterval = -time.Second },
		"Persist: there is no choice 9":         func(o *restatestart.ConsumerOptions) { o.Persist = 9 },
		"DrainTimeout: -1s is negative":         func(o *restatestart.ConsumerOptions) { o.DrainTimeout = -time.Second },
		"HoldMin: -1s is negative":              func(o *restatestart.ConsumerOptions) { o.HoldMin = -time.Second },
		"DrainTimeout: 10ns is below a millise": func(o *restatestart.ConsumerOptions) { o.DrainTimeout = 10 },
		"HoldMax: -1s is negative":              func(o *restatestart.ConsumerOptions) { o.HoldMax = -time.Second },
		"HoldMin: 1m0s is above HoldMax, 30s":   func(o *restatestart.ConsumerOptions) { o.HoldMin = time.Minute },
		"OnError: there is no policy 9":         func(o *restatestart.ConsumerOptions) { o.OnError = 9 },
		"OnMalformed: there is no policy 9":     func(o *restatestart.ConsumerOptions) { o.OnMalformed = 9 },
		"OnRejected: there is no policy 2":      func(o *restatestart.ConsumerOptions) { o.OnRejected = 2 },
		"Gaps: there is no policy 9":            func(o *restatestart.ConsumerOptions) { o.Gaps = 9 },
		"StartFrom: the time is zero":           func(o *restatestart.ConsumerOptions) { o.StartFrom = restatestart.FromTime(time.Time{}) },
		"Types: name 1 is empty":                func(o *restatestart.ConsumerOptions) { o.Types = []string{"a", ""} },
		"InstanceCount: -1 is negative":         func(o *restatestart.ConsumerOptions) { o.InstanceCount = -1 },
		"InstanceIndex: -1 is negative":         func(o *restatestart.ConsumerOptions) { o.InstanceIndex = index(-1) },
		"InstanceIndex: 3 is not below Instanc": func(o *restatestart.ConsumerOptions) { o.InstanceIndex, o.InstanceCount = index(3), 3 },
	} {
		options := restatestart.ConsumerOptions{Consumer: "payout"}
		change(&options)
		_, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{}, options)
		require.ErrorContains(t, err, "restatestart: ConsumerOptions."+field)
	}
	good := restatestart.ConsumerOptions{Consumer: "payout"}
	_, err := restatestart.NewConsumer(nil, "claims", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "client is nil")
	_, err = restatestart.NewConsumer((*redis.Client)(nil), "claims", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "client is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], (*restatestart.Starter[claim])(nil), good)
	require.ErrorContains(t, err, "handler is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], restatestart.HandlerFunc[claim](nil), good)
	require.ErrorContains(t, err, "handler is nil")
	_, err = restatestart.NewConsumer(client, "", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "topic is empty")
	_, err = restatestart.NewConsumer(client, "{claims}", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "bare name")
	_, err = restatestart.NewConsumer(client, "claims", nil, restatestart.Handler[claim](&recorder{}), good)
	require.ErrorContains(t, err, "decoder is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], nil, good)
	require.ErrorContains(t, err, "handler is nil")
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{}, good)
	require.NoError(t, err)
	assert.Equal(t, restatestart.StateStarting, consumer.Status().State, "no I/O, and a status before Run")
}

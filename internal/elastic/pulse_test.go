package elastic

import (
	"context"
	"errors"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestPulse(t *testing.T) {
	begin := moment.Time
	type beat struct {
		at      time.Duration
		answers bool
	}
	for name, tc := range map[string]struct {
		beats []beat
		at    time.Duration
		want  time.Time
	}{
		"never asked":             {nil, time.Minute, time.Time{}},
		"it answers":              {[]beat{{0, true}, {2 * time.Second, true}}, 4 * time.Second, time.Time{}},
		"it never answered":       {[]beat{{0, false}, {40 * time.Second, true}}, 41 * time.Second, time.Time{}},
		"it is slow":              {[]beat{{0, true}, {10 * time.Second, false}, {20 * time.Second, true}}, 21 * time.Second, time.Time{}},
		"it does not answer":      {[]beat{{0, true}, {10 * time.Second, false}}, 21 * time.Second, begin.Add(21 * time.Second)},
		"it answers again":        {[]beat{{0, true}, {60 * time.Second, false}, {70 * time.Second, true}}, 80 * time.Second, begin.Add(70 * time.Second)},
		"it has answered since":   {[]beat{{0, true}, {70 * time.Second, true}, {72 * time.Second, true}}, 80 * time.Second, begin.Add(70 * time.Second)},
		"it was away once before": {[]beat{{0, true}, {70 * time.Second, true}, {140 * time.Second, true}}, 141 * time.Second, begin.Add(140 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			c := testingclock.NewFakePassiveClock(begin)
			var answers bool
			p := &pulse{clock: c, ask: func(context.Context) error {
				if answers {
					return nil
				}
				return errors.New("no answer")
			}}
			for _, b := range tc.beats {
				c.SetTime(begin.Add(b.at))
				answers = b.answers
				p.beat(t.Context())
			}
			c.SetTime(begin.Add(tc.at))
			if got := p.answering(); !got.Equal(tc.want) {
				t.Errorf("answering since %v, want %v", got, tc.want)
			}
		})
	}
}

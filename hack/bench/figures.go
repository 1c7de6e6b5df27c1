package main

import (
	"slices"
	"time"
)

// report is all that a run comes to.
type report struct {
	Machine  machine `json:"machine"`
	Size     size    `json:"size"`
	Operator figures `json:"operator"`
	OldTick  figures `json:"oldTick"`
}

// figures are one side's.
type figures struct {
	Stops stopFigures `json:"stops"`
	Loss  lossFigures `json:"loss"`
	// LoadBefore and LoadAfter are the machine's load average of one minute; empty where there is none to be had.
	LoadBefore string `json:"loadBefore,omitempty"`
	LoadAfter  string `json:"loadAfter,omitempty"`
}

// stopFigures say how long functions whose worker had stopped waited for a request.
type stopFigures struct {
	Count  int    `json:"count"`
	Median millis `json:"medianMs"`
	Worst  millis `json:"worstMs"`
}

// lossFigures say what came of all workers being lost at once.
type lossFigures struct {
	// Functions that lost their worker; all were requested.
	Functions int `json:"functions"`
	// LastRequested is when the last of them was requested for the first time.
	LastRequested millis `json:"lastRequestedMs"`
	// Requests that came while the boots hung, and RequestsAfter until all boots had ended.
	Requests      int `json:"requests"`
	RequestsAfter int `json:"requestsAfter"`
	// Workers that lived when all boots had ended.
	Workers int `json:"workers"`
}

// millis is a duration whose JSON form is a number of milliseconds.
type millis time.Duration

// MarshalJSON writes milliseconds with three decimals.
func (m millis) MarshalJSON() ([]byte, error) {
	return []byte(formatFloat(float64(time.Duration(m).Microseconds())/1000, 3)), nil
}

func stopFiguresOf(waits []time.Duration) stopFigures {
	slices.Sort(waits)
	n := len(waits)
	// Of an even number the mean of the two in the middle.
	return stopFigures{
		Count:  n,
		Median: millis((waits[(n-1)/2] + waits[n/2]) / 2),
		Worst:  millis(waits[n-1]),
	}
}

func lossFiguresOf(first map[string]time.Duration, requests int) lossFigures {
	loss := lossFigures{Functions: len(first), Requests: requests}
	for _, after := range first {
		loss.LastRequested = max(loss.LastRequested, millis(after))
	}
	return loss
}

-- What wrk found, in one line: requests, seconds, milliseconds at the 99th percentile, and what went wrong.
done = function(summary, latency, requests)
  local errors = summary.errors
  local wrong = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format("found %d %f %f %d", summary.requests, summary.duration / 1e6, latency:percentile(99) / 1e3, wrong))
end

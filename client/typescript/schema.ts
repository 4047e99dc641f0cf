/* Written by `npm run generate`. */

export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Open the dashboard
         * @description Return a web page that shows stores, keys, windows and dead letters, and updates them.
         */
        get: operations["dashboard"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Open the API reference
         * @description Return Swagger UI for this document. It loads nothing from another server.
         */
        get: operations["docs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/freshz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that new data arrives
         * @description Return whether every pipeline runs and reads its log, and whether the service follows the tables. If not, the status code is 503 with the same body, which says since when and why. Use it for alerts. For load balancers use `/readyz`, because a service can serve its data while a pipeline is down.
         */
        get: operations["freshness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that the process runs
         * @description Return `ok` while the process can respond.
         */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export metrics for Prometheus
         * @description Return metrics of the pipelines, stores, partitions and indexes of the data directory, in the text format of Prometheus.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/label/{label}/values": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List values of a label
         * @description List the values of a label of all series, or of the selected series. For `__name__`, they are the names of the metrics.
         */
        get: operations["listLabelValues"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/labels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List label names
         * @description List the names of the labels of all series, or of the selected series. You can also send the parameters as a form with POST.
         */
        get: operations["listLabels"];
        put?: never;
        /**
         * List label names
         * @description The same with the parameters in the body. List the names of the labels of all series, or of the selected series. You can also send the parameters as a form with POST.
         */
        post: operations["listLabelsByForm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/metadata": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List metrics
         * @description List the metrics with their type and a description of the aggregate.
         */
        get: operations["listMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Evaluate PromQL at one time
         * @description Return the value of a PromQL expression at one time. Each numeric aggregate of a store with windows is a metric, `STORE_AGGREGATE`. A sample is one window. Its time is the window end. A series has no value where it has no window. You can also send the parameters as a form with POST.
         */
        get: operations["queryWindows"];
        put?: never;
        /**
         * Evaluate PromQL at one time
         * @description The same with the parameters in the body. Return the value of a PromQL expression at one time. Each numeric aggregate of a store with windows is a metric, `STORE_AGGREGATE`. A sample is one window. Its time is the window end. A series has no value where it has no window. You can also send the parameters as a form with POST.
         */
        post: operations["queryWindowsByForm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/query_range": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Evaluate PromQL at many times
         * @description Evaluate a PromQL expression at each time from `start` to `end` with the distance `step`, as `query` does for one time. You can also send the parameters as a form with POST.
         */
        get: operations["queryWindowRange"];
        put?: never;
        /**
         * Evaluate PromQL at many times
         * @description The same with the parameters in the body. Evaluate a PromQL expression at each time from `start` to `end` with the distance `step`, as `query` does for one time. You can also send the parameters as a form with POST.
         */
        post: operations["queryWindowRangeByForm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find series by selectors
         * @description List the label sets of the series that a selector selects. All visible windows count, regardless of `start` and `end`. You can also send the parameters as a form with POST.
         */
        get: operations["findSeries"];
        put?: never;
        /**
         * Find series by selectors
         * @description The same with the parameters in the body. List the label sets of the series that a selector selects. All visible windows count, regardless of `start` and `end`. You can also send the parameters as a form with POST.
         */
        post: operations["findSeriesByForm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/prometheus/api/v1/status/buildinfo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show the API version
         * @description Return the version of Prometheus whose API the service has. Grafana chooses its requests by this version.
         */
        get: operations["showBuild"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that the service is ready
         * @description Return whether the tailer is alive and follows every store. If not, the status code is 503 with the same body. A pipeline that does not run does not change it.
         */
        get: operations["readiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deadLetters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List dead letters
         * @description List the records that the stores could not use, with their source offset, reason, key, time, headers and bytes. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
         */
        get: operations["listDeadLetters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deadLetters/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count dead letters by reason
         * @description Count the dead letters that `listDeadLetters` returns for the same parameters, with the most frequent reason first. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
         */
        get: operations["countDeadLetters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sql": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a SQL query
         * @description Run one SELECT statement of DuckDB over the stores. Each store is a table with its current rows, and `STORE_final` has only final rows. The rows are from the newest version of each table. The service needs the option `--sql`. A token for some stores can only query these stores, and a token for some keys cannot use this operation.
         */
        post: operations["sql"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show the status of pipelines
         * @description Return state, lag and throughput of each pipeline, and what each store waits for. With a token for some stores, only these stores and the pipelines that write them.
         */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List stores
         * @description List every store of the data directory with its definition, position and state.
         */
        get: operations["listStores"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Describe a store
         * @description Return the definition, position, stream time, counters and retention of one store.
         */
        get: operations["describeStore"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/all": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List all windows or rows
         * @description List all visible windows or rows by key, then start, then end.
         */
        get: operations["all"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/approximateNumEntries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count rows of a store
         * @description Return the number of rows. The name is Kafka's, but the number is exact.
         */
        get: operations["approximateNumEntries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List all windows backward
         * @description List the windows of `all` in reverse order.
         */
        get: operations["backwardAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFetch/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows of a key backward
         * @description List the windows of `fetch` in descending order of start (KIP-617). Without bounds, the first page contains the newest windows.
         */
        get: operations["backwardFetch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFetchAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows by time range backward
         * @description List the windows of `fetchAll` in reverse order.
         */
        get: operations["backwardFetchAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFetchOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * List windows of listed keys backward
         * @description List the windows that `backwardFetch` returns for each key in the body, in the order of the body.
         */
        post: operations["backwardFetchOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFetchRange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows by key range backward
         * @description List the windows of `fetchRange` in reverse order.
         */
        get: operations["backwardFetchRange"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFindSessions/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List sessions of a key backward
         * @description List the sessions of `findSessions` in descending order of start (KIP-617).
         */
        get: operations["backwardFindSessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/backwardFindSessionsRange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List sessions by key range backward
         * @description List the sessions of `findSessionsRange` in reverse order.
         */
        get: operations["backwardFindSessionsRange"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List changes since a version
         * @description List each window or row that changed after a version once, ordered by the version of its last change, key, start and end. An item has the newest row, or `null` if the row was removed. Expired windows are left out, and compaction changes no window. If the log no longer contains the changes, the problem is `version-gone`. Then read the store again. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
         */
        get: operations["changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/covering/{instant_ms}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows that contain an instant
         * @description List the windows of a key that a record with this time belongs to, in ascending order of start.
         */
        get: operations["covering"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/current/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the current window
         * @description Return the window of a key that contains its newest record. For sliding windows, it is the window that ends at this record. For hopping windows, it is the first window that contains this record. For sessions, it is the session with the greatest end. The status code is 404 if the key has no window.
         */
        get: operations["current"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/currentAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the current window per key
         * @description List the `current` window of every key in a key range, by key.
         */
        get: operations["currentAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/currentOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read current windows of listed keys
         * @description Return the `current` window of each key in the body, in the order of the body. A key without windows is left out.
         */
        post: operations["currentOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/fetch/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows of a key
         * @description List the windows whose start is from `from_ms` to `to_ms`, both inclusive, in ascending order of start. The list is empty for an unknown key.
         */
        get: operations["fetch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/fetchAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows by time range
         * @description List the windows of all keys whose start is from `from_ms` to `to_ms`, both inclusive, by key, then start, then end.
         */
        get: operations["fetchAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/fetchOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * List windows of listed keys
         * @description List the windows that `fetch` returns for each key in the body, in the order of the body.
         */
        post: operations["fetchOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/fetchRange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List windows by key range
         * @description List the windows of keys from `key_from` to `key_to` whose start is from `from_ms` to `to_ms`, by key, then start, then end. All bounds are inclusive and optional. It is Kafka's fetch with two keys, with open ends (KIP-763).
         */
        get: operations["fetchRange"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/fetchSession/{window_start_ms}/{window_end_ms}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one session (alias)
         * @description Return the same session as `session`, under the name of Kafka's method.
         */
        get: operations["fetchSession"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/findSessions/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List sessions of a key
         * @description List the sessions that end at or after `earliest_end_ms` and start at or before `latest_start_ms`, in ascending order of start. To find the sessions that contain an instant, set both bounds to this instant. The list is empty for an unknown key.
         */
        get: operations["findSessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/findSessionsRange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List sessions by key range
         * @description List the sessions of keys from `key_from` to `key_to` that end at or after `earliest_end_ms` and start at or before `latest_start_ms`, by key, then start, then end.
         */
        get: operations["findSessionsRange"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/get/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the row of a key
         * @description Return the aggregates over all records of the key, from a store without windows. The status code is 404 if the key has no row.
         */
        get: operations["get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/getOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read rows of listed keys
         * @description Return the row of each key in the body, in the order of the body. A key without a row is left out.
         */
        post: operations["getOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List keys of a store
         * @description List the keys that have a visible window or row, in key order. Strings are ordered by their UTF-8 bytes, other keys by value.
         */
        get: operations["listKeys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/latest/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the latest window
         * @description Return the window of a key with the greatest start. If several sessions have this start, it is the session with the greatest end. For sliding windows, it is the window that starts 1 ms after the second-newest record. It contains only the newest record. Use `current` for the window that ends at the newest record. The status code is 404 if the key has no window.
         */
        get: operations["latest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/latestAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the latest window per key
         * @description List the `latest` window of every key in a key range, by key. The cost depends on the number of keys, not on their number of windows.
         */
        get: operations["latestAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/latestOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read latest windows of listed keys
         * @description Return the `latest` window of each key in the body, in the order of the body. A key without windows is left out.
         */
        post: operations["latestOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/merged/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List merged windows of a key
         * @description Merge the tumbling windows of a key to ranges of `step_ms`, and list the ranges whose start is from `from_ms` to `to_ms`, both inclusive, in ascending order of start. A range has the fields of a window: its start and end, its `count`, `sum`, `min` and `max` aggregates, and its greatest record time. It is final if no record can change it. A range without windows is left out, and so is a range whose first windows have expired. If the store has other aggregates, send `columns` with the ones to merge.
         */
        get: operations["merged"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/mergedAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List merged windows by key range
         * @description List the ranges that `merged` returns for every key in a key range, by key, then start.
         */
        get: operations["mergedAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/mergedOfKeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * List merged windows of listed keys
         * @description List the ranges that `merged` returns for each key in the body, in the order of the body.
         */
        post: operations["mergedOfKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/prefixScan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List rows by key prefix
         * @description List the rows of keys that begin with `prefix`, by key.
         */
        get: operations["prefixScan"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/range": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List rows by key range
         * @description List the rows of keys from `key_from` to `key_to`, both inclusive and optional, by key.
         */
        get: operations["range"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/reverseAll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List all rows backward
         * @description List the rows of `all` in reverse order.
         */
        get: operations["reverseAll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/reverseRange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List rows by key range backward
         * @description List the rows of `range` in reverse order.
         */
        get: operations["reverseRange"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/session/{window_start_ms}/{window_end_ms}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one session of a key
         * @description Return the session with exactly this start and end. The status code is 404 if the session does not exist or has expired.
         */
        get: operations["session"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream changes of a store
         * @description Return the changes of a store as Server-Sent Events. The first event, `position`, contains the version at which the stream begins. Each `change` contains the windows or rows that one table version changed, and in `removed` the keys and times of removed ones. After a `reset`, read the store again. To continue without a loss or a repetition, send the `id` of the last event. An event with only an `id` arrives at least every 15 s as a heartbeat. If the token expires, is removed or grants less access, the last event is `denied`, a problem document.
         */
        get: operations["watch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stores/{store}/window/{window_start_ms}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one window of a key
         * @description Return the window with exactly this start. If several sessions have this start, it is the session with the least end. The status code is 404 if the window does not exist or has expired.
         */
        get: operations["window"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topology": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show the topologies of pipelines
         * @description Return topics, joins, stores and output topics of each pipeline, the calls between them, and a Mermaid flowchart. A pipeline writes its topology when it starts. With a token for some stores, only these stores, with their inputs and output topics.
         */
        get: operations["topology"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Aggregate
         * @description One aggregate column.
         */
        Aggregate: {
            /**
             * Function
             * @example avg(delay)
             */
            function: string;
            /**
             * Name
             * @example mean_delay
             */
            name: string;
            /**
             * Type
             * @description Name of the type in Delta
             * @example double
             */
            type: string;
        };
        /**
         * BuildResponse
         * @description The version of the API.
         */
        BuildResponse: {
            /**
             * Data
             * @description `version`: the version of Prometheus' API
             */
            data: {
                [key: string]: string;
            };
            /**
             * Status
             * @constant
             */
            status: "success";
        };
        /**
         * Bytes
         * @description Bytes, encoded for JSON.
         */
        Bytes: {
            /**
             * Data
             * @example {"origin": 7}
             */
            data: string;
            /**
             * Encoding
             * @description utf-8: `data` is the bytes as a string. base64: the bytes are not UTF-8, and `data` encodes them (RFC 4648)
             * @enum {string}
             */
            encoding: "utf-8" | "base64";
        };
        /**
         * Change
         * @description A window that changed, or the row of a key in a store without windows.
         */
        Change: {
            /**
             * Key
             * @example EWR
             */
            key: string;
            /**
             * Row
             * @description The window or row at the position of the response. Null if it was removed
             */
            row: components["schemas"]["Window"] | components["schemas"]["Row"] | null;
            /**
             * Version
             * @description Version of the table in which it last changed
             */
            version: number;
            /**
             * Window End Ms
             * @description Null in a store without windows
             */
            window_end_ms: number | null;
            /**
             * Window Start Ms
             * @description Null in a store without windows
             */
            window_start_ms: number | null;
        };
        /**
         * ChangesAnswer
         * @description Windows that changed since a version, by version, key, start and end.
         */
        ChangesAnswer: {
            /** Changes */
            changes: components["schemas"]["Change"][];
            /**
             * Next Cursor
             * @description Send it as `cursor` to read the next page. Null on the last page
             */
            next_cursor: string | null;
            position: components["schemas"]["Position"];
            /**
             * Store
             * @example departures
             */
            store: string;
            /**
             * Through History
             * @description `history` of this version. Send it with `since_version`
             * @example 1a2b3c4d-99aabbcc
             */
            through_history: string;
            /**
             * Through Version
             * @description Send it as `since_version` of the next request. The pages up to the one without `next_cursor` contain all changes up to this version
             * @example 17
             */
            through_version: number;
        };
        /**
         * CountAnswer
         * @description The number of rows of a store without windows.
         */
        CountAnswer: {
            /** Count */
            count: number;
            position: components["schemas"]["Position"];
            /** Store */
            store: string;
        };
        /**
         * DeadLetter
         * @description A record that a store could not use.
         */
        DeadLetter: {
            /**
             * Detail
             * @description Description of the reason
             */
            detail: string;
            /**
             * Headers
             * @description Null if the headers are unknown
             */
            headers: components["schemas"]["Header"][] | null;
            /** @description Key of the record. Null if it has no key or the key is unknown */
            key: components["schemas"]["Bytes"] | null;
            /**
             * Offset
             * @description Offset of the record. For an event log, the byte position of the line
             */
            offset: number;
            /** Partition */
            partition: number;
            /**
             * Reason
             * @example not-json
             */
            reason: string;
            /**
             * Repeats Offset
             * @description If a replay wrote this record, the offset of its first dead letter in the same topic and partition. Null if no replay wrote it
             */
            repeats_offset: number | null;
            /**
             * Replayed Ms
             * @description Time at which `oriel dead-letters replay` sent the record again, in ms since the epoch. Null if the record was not replayed, 0 if an earlier version of Oriel replayed it
             * @example 1767225600000
             */
            replayed_ms: number | null;
            /**
             * Revision
             * @description The batch that rejected the record
             */
            revision: number;
            /**
             * Store
             * @description The store that cannot use the record. Null if no store can use it
             */
            store: string | null;
            /**
             * Timestamp Ms
             * @description Time of the record. Null if it is unknown
             */
            timestamp_ms: number | null;
            /**
             * Topic
             * @example flights
             */
            topic: string;
            /** @description Value of the record. For an event log, the whole line */
            value: components["schemas"]["Bytes"];
        };
        /**
         * DeadLetterCountsAnswer
         * @description The number of dead letters, in total and by reason.
         */
        DeadLetterCountsAnswer: {
            /**
             * By Reason
             * @example {
             *       "not-json": 3,
             *       "wrong-type": 1
             *     }
             */
            by_reason: {
                [key: string]: number;
            };
            /**
             * Repeats
             * @description Number of dead letters with a `repeats_offset`, because a replayed record failed again
             */
            repeats: number;
            /** Total */
            total: number;
            /**
             * Version
             * @description Version of the dead-letter table. Null if it does not exist
             */
            version: number | null;
        };
        /**
         * DeadLettersAnswer
         * @description Dead letters from one version of their table.
         */
        DeadLettersAnswer: {
            /** Letters */
            letters: components["schemas"]["DeadLetter"][];
            /**
             * Next Cursor
             * @description Send it as `cursor` to read the next page. Null on the last page
             */
            next_cursor: string | null;
            /**
             * Version
             * @description Version of the dead-letter table. Null if it does not exist
             */
            version: number | null;
        };
        /**
         * Definition
         * @description The definition of the store.
         */
        Definition: {
            /** Aggregates */
            aggregates: components["schemas"]["Aggregate"][];
            /** Application */
            application: string;
            /**
             * Emit
             * @description window-update: rows are written at each change. window-close: a row is written once, when the window is final
             * @example window-update
             */
            emit: string;
            /** Format */
            format: number;
            /**
             * Functions
             * @description Names and schema of the user's functions
             */
            functions: string[] | null;
            /**
             * Generation
             * @description How often all rows or the whole state were replaced
             */
            generation: number;
            /** Grouped By */
            grouped_by: string;
            /** Key Groups */
            key_groups: number;
            /**
             * Key Type
             * @description Type of the keys: text, long (64-bit integers in decimal), or composites of both as JSON arrays, with the type of each component
             * @example text
             * @example long
             * @example [text, long]
             */
            key_type: string;
            /** Name */
            name: string;
            /**
             * Retention Ms
             * @description Retention in ms, by window start, or by end for sessions. Null if all history is kept
             */
            retention_ms: number | null;
            /**
             * Sources
             * @description Topics with their schemas. Null if an earlier version of Oriel wrote the table without them
             */
            sources: string[] | null;
            /**
             * Steps
             * @description Row-wise steps and joins of each input. The last entry, `rows`, has the steps after the aggregation
             */
            steps: string[] | null;
            /** Topic */
            topic: string;
            window: components["schemas"]["WindowKind"];
        };
        /**
         * EntriesAnswer
         * @description Windows, or the rows of a store without windows.
         */
        EntriesAnswer: components["schemas"]["WindowsAnswer"] | components["schemas"]["RowsAnswer"];
        /**
         * Freshness
         * @description Whether new data arrives.
         */
        Freshness: {
            /** Fresh */
            fresh: boolean;
            /**
             * Pipelines
             * @description Pipelines of the data directory. A retired pipeline does not change `fresh`
             */
            pipelines: {
                [key: string]: components["schemas"]["PipelineFreshness"];
            };
            /**
             * Problem
             * @description Why the service shows no new data. Null if it does
             */
            problem: string | null;
        };
        /**
         * Header
         * @description A header of a Kafka message.
         */
        Header: {
            /** Key */
            key: string | null;
            value: components["schemas"]["Bytes"] | null;
        };
        /**
         * Health
         * @description Whether the process runs.
         */
        Health: {
            /**
             * Status
             * @example ok
             */
            status: string;
        };
        /**
         * HeldBy
         * @description The partition that keeps windows from becoming final.
         */
        HeldBy: {
            /**
             * Partition
             * @description Null if no partition of the topic has a record
             */
            partition: number | null;
            /**
             * Stream Time Ms
             * @description Null if the partition has no record
             */
            stream_time_ms: number | null;
            /**
             * Topic
             * @example orders
             */
            topic: string;
        };
        /**
         * IndexDetail
         * @description The state of the index.
         */
        IndexDetail: {
            /**
             * Problem
             * @description What failed. Null if nothing failed
             */
            problem: string | null;
            /**
             * State
             * @description State of the tailer for this store: opening, building, following, failed, or unknown if the tailer has not reported the store
             */
            state: string;
            /**
             * Windows
             * @description Windows or rows in the index, including expired ones until they are deleted. Null for a token for some keys
             */
            windows: number | null;
        };
        /**
         * IsoRow
         * @description A `Row` with `times=iso`.
         */
        IsoRow: {
            /**
             * Key
             * @example EWR
             */
            key: string;
            /**
             * Timestamp
             * @example 2013-01-01T10:29:00.000Z
             */
            timestamp: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * IsoWindow
         * @description A `Window` with `times=iso`: times in ISO 8601 in UTC, with milliseconds.
         */
        IsoWindow: {
            /** Final */
            final: boolean;
            /**
             * Key
             * @example EWR
             */
            key: string;
            /**
             * Timestamp
             * @example 2013-01-01T10:29:00.000Z
             */
            timestamp: string;
            /**
             * Window End
             * @example 2013-01-01T10:30:00.000Z
             */
            window_end: string;
            /**
             * Window Start
             * @example 2013-01-01T10:00:00.000Z
             */
            window_start: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * KeysAnswer
         * @description Keys of a store, in their order.
         */
        KeysAnswer: {
            /** Keys */
            keys: string[];
            /**
             * Next Cursor
             * @description Send it as `cursor` to read the next page. Null on the last page
             */
            next_cursor: string | null;
            position: components["schemas"]["Position"];
            /** Store */
            store: string;
        };
        /**
         * MetadataResponse
         * @description The metrics by their names.
         */
        MetadataResponse: {
            /** Data */
            data: {
                [key: string]: components["schemas"]["MetricMetadata"][];
            };
            /**
             * Status
             * @constant
             */
            status: "success";
        };
        /**
         * MetricMetadata
         * @description The description of a metric.
         */
        MetricMetadata: {
            /**
             * Help
             * @description The aggregate, its windows and its store
             */
            help: string;
            /**
             * Type
             * @description Every aggregate is a gauge
             * @constant
             */
            type: "gauge";
            /**
             * Unit
             * @description Always empty
             */
            unit: string;
        };
        /**
         * NamesResponse
         * @description Names or values of labels.
         */
        NamesResponse: {
            /** Data */
            data: string[];
            /**
             * Status
             * @constant
             */
            status: "success";
            /**
             * Warnings
             * @description What the list leaves out. Missing if it is complete
             * @default []
             */
            warnings: string[];
        };
        /**
         * PipelineFreshness
         * @description Whether one pipeline writes new data.
         */
        PipelineFreshness: {
            /**
             * Problem
             * @description Why it writes no new data, and what to do. Null if it writes
             */
            problem: string | null;
            /**
             * Since Ms
             * @description Since when it writes no new data, in ms since the epoch. Null if it writes
             */
            since_ms: number | null;
            /**
             * State
             * @description As in `PipelineStatus`
             * @enum {string}
             */
            state: "running" | "starting" | "stopped" | "stuck" | "retired";
        };
        /**
         * PipelineReadiness
         * @description Whether one pipeline runs.
         */
        PipelineReadiness: {
            /**
             * Problem
             * @description What to do. Null while the pipeline runs
             */
            problem: string | null;
            /** Running */
            running: boolean;
            /**
             * Seen Ms
             * @description When the pipeline last wrote its status, in ms
             */
            seen_ms: number;
        };
        /**
         * PipelineStatus
         * @description The status of one pipeline. Times are in ms since the epoch.
         */
        PipelineStatus: {
            /**
             * Batch Ms
             * @description End of the last batch. Null before the first batch
             */
            batch_ms: number | null;
            /**
             * Batches
             * @description Batches since the pipeline started
             */
            batches: number;
            /**
             * Lag
             * @description How much of the log the stores have not read, in `lag_unit`. Null if the pipeline does not run or read the log's end more than 20 s ago, and for a token for some keys
             */
            lag: number | null;
            /**
             * Lag Ms
             * @description Greatest difference between wall-clock time and stream time of a partition with unread records. 0 without unread records. Null if it is unknown
             */
            lag_ms: number | null;
            /**
             * Lag Unit
             * @description records of Kafka topics, or bytes of an event log
             * @enum {string}
             */
            lag_unit: "records" | "bytes";
            /**
             * Log End Ms
             * @description When the pipeline last read the end of its log. Null if it never did
             */
            log_end_ms: number | null;
            /**
             * Pipeline
             * @example orders
             */
            pipeline: string;
            /**
             * Problem
             * @description What is wrong and what to do. Null if nothing is wrong
             * @example Pipeline orders has not run since 2026-11-26 00:25:10 UTC. Start it.
             */
            problem: string | null;
            /**
             * Records Per Second
             * @description Records that the pipeline reads, as a mean over about 10 s. Null unless it is running, and for a token for some keys
             */
            records_per_second: number | null;
            /**
             * Seen Ms
             * @description When the pipeline last wrote its status
             */
            seen_ms: number;
            /**
             * State
             * @description The pipeline is `starting` before its first batch. It is `stopped` if it ended, or wrote no status for 10 s. It is `stuck` if it had no batch for 5 min although records wait or the log does not respond. It is `retired` after `oriel retire`
             * @enum {string}
             */
            state: "running" | "starting" | "stopped" | "stuck" | "retired";
            /**
             * Stores
             * @description Stores that the pipeline writes
             */
            stores: string[];
        };
        /**
         * PipelineTopology
         * @description The topology of one pipeline.
         */
        PipelineTopology: {
            /** Arrows */
            arrows: components["schemas"]["TopologyArrow"][];
            /**
             * Mermaid
             * @description The topology as a Mermaid flowchart
             */
            mermaid: string;
            /** Nodes */
            nodes: components["schemas"]["TopologyNode"][];
            /**
             * Pipeline
             * @example flights
             */
            pipeline: string;
            /**
             * Started Ms
             * @description When the pipeline started, in ms since the epoch
             */
            started_ms: number;
        };
        /**
         * Position
         * @description The table version and source offsets that the response contains.
         */
        Position: {
            /**
             * History
             * @description Identifies the history of the version. A restore of an older backup starts another history: its versions have the same numbers and other values here. Send it as `history` with the version, or `VERSION-HISTORY` as `after` of `watch`
             * @example 1a2b3c4d-99aabbcc
             */
            history: string;
            /**
             * Offsets
             * @description Topic -> partition -> offset. Every record below the offset is included
             * @example {
             *       "flights": {
             *         "0": 12345
             *       }
             *     }
             */
            offsets: {
                [key: string]: {
                    [key: string]: number;
                };
            };
            /**
             * Version
             * @description Version of the store's Delta table
             * @example 17
             */
            version: number;
        };
        /**
         * Problem
         * @description An error (RFC 9457). Programs use `code`, which never changes its meaning.
         */
        Problem: {
            /** Code */
            code: string;
            /** Detail */
            detail: string;
            /** Instance */
            instance: string;
            /**
             * Owners
             * @description Only for `keys-of-several-shards`: the shard of each key, in the order of the list
             * @default []
             */
            owners: number[];
            /** Status */
            status: number;
            /** Title */
            title: string;
            /** Type */
            type: string;
        };
        /**
         * PrometheusError
         * @description An error in the format of Prometheus.
         */
        PrometheusError: {
            /**
             * Error
             * @description What is wrong with this request, and what to do
             */
            error: string;
            /**
             * Errortype
             * @description `bad_data` for an invalid query, `execution` for a query without a result, `unavailable` or `timeout` for a query to send again
             * @example bad_data
             */
            errorType: string;
            /**
             * Status
             * @constant
             */
            status: "error";
        };
        /**
         * QueryData
         * @description The result of a PromQL expression.
         */
        QueryData: {
            /**
             * Result
             * @description Objects with `metric`, the labels of a series, and `value` or `values`. A value is a list of a time in seconds and a number as a string
             */
            result: unknown[];
            /**
             * Resulttype
             * @description `vector`: one value per series. `matrix`: a list of values per series
             * @enum {string}
             */
            resultType: "matrix" | "vector" | "scalar" | "string";
        };
        /**
         * QueryResponse
         * @description The result of a query.
         */
        QueryResponse: {
            data: components["schemas"]["QueryData"];
            /**
             * Status
             * @constant
             */
            status: "success";
        };
        /**
         * Readiness
         * @description Whether the service is ready.
         */
        Readiness: {
            /**
             * Pipelines
             * @description Pipelines that write the stores. A pipeline that does not run does not change `ready`. Empty if the data directory is in an object store
             */
            pipelines: {
                [key: string]: components["schemas"]["PipelineReadiness"];
            };
            /** Problem */
            problem: string | null;
            /** Ready */
            ready: boolean;
            /** Stores */
            stores: {
                [key: string]: components["schemas"]["StoreReadiness"];
            };
            /** Tailer Alive */
            tailer_alive: boolean;
        };
        /**
         * Row
         * @description The row of one key in a store without windows, with one more field per aggregate.
         *
         *     Aggregates have the values of a `Window`.
         */
        Row: {
            /**
             * Key
             * @example EWR
             */
            key: string;
            /**
             * Timestamp Ms
             * @description Greatest record time of the key (KIP-259)
             */
            timestamp_ms: number;
        } & {
            [key: string]: unknown;
        };
        /**
         * RowsAnswer
         * @description Rows of a store without windows, from one table version.
         */
        RowsAnswer: {
            /**
             * Next Cursor
             * @description Send it as `cursor` to read the next page. Null on the last page
             */
            next_cursor: string | null;
            position: components["schemas"]["Position"];
            /** Rows */
            rows: components["schemas"]["Row"][] | components["schemas"]["IsoRow"][];
            /**
             * Store
             * @example totals
             */
            store: string;
        };
        /**
         * SeriesResponse
         * @description The labels of series.
         */
        SeriesResponse: {
            /**
             * Data
             * @description The labels of each series
             */
            data: {
                [key: string]: string;
            }[];
            /**
             * Status
             * @constant
             */
            status: "success";
            /**
             * Warnings
             * @description What the list leaves out. Missing if it is complete
             * @default []
             */
            warnings: string[];
        };
        /**
         * SqlColumn
         * @description A column of the rows of a SQL query.
         */
        SqlColumn: {
            /**
             * Name
             * @example key
             */
            name: string;
            /**
             * Type
             * @description Name of the type in DuckDB
             * @example VARCHAR
             */
            type: string;
        };
        /**
         * SqlRows
         * @description The rows of a SQL query, with one field per column.
         */
        SqlRows: {
            /** Columns */
            columns: components["schemas"]["SqlColumn"][];
            /**
             * Positions
             * @description Position of each store of the query
             */
            positions: {
                [key: string]: components["schemas"]["Position"];
            };
            /**
             * Rows
             * @description NaN and infinities are null. Times are ISO 8601 in UTC. A value of a type that JSON does not have is a string
             */
            rows: {
                [key: string]: unknown;
            }[];
            /**
             * Truncated
             * @description True if the query has more rows, which are cut
             */
            truncated: boolean;
        };
        /**
         * StatusAnswer
         * @description The status of pipelines and stores.
         */
        StatusAnswer: {
            /** Pipelines */
            pipelines: components["schemas"]["PipelineStatus"][];
            /**
             * Problem
             * @description What is wrong with the service, as in `Readiness`. Null if nothing is wrong
             */
            problem: string | null;
            /** Stores */
            stores: components["schemas"]["StoreState"][];
            /**
             * Time Ms
             * @description When the service read the status
             */
            time_ms: number;
        };
        /**
         * StoreDetail
         * @description The definition, position and state of one store.
         */
        StoreDetail: {
            /**
             * Close Ms
             * @description Every window that ends before this is final
             */
            close_ms: number | null;
            /**
             * Committed Ms
             * @description When the position's version was committed, in ms since the epoch. Null if its log entry was deleted, or if the table is in an object store
             */
            committed_ms: number | null;
            /**
             * Counters
             * @description Running totals of records. input = applied + late + dead_lettered + filtered. After a join of streams or tables, late_results and rejected_results count late and dead-lettered join results. table_records are the applied records that are rows of a lookup table. If records are flattened, elements are the flattened records: elements = elements_applied + elements_late + elements_dead_lettered + elements_filtered. Empty for a token for some keys
             * @example {
             *       "applied": 8,
             *       "dead_lettered": 1,
             *       "filtered": 0,
             *       "input": 10,
             *       "late": 1
             *     }
             */
            counters: {
                [key: string]: number;
            };
            definition: components["schemas"]["Definition"];
            /**
             * Earliest End Ms
             * @description Sessions that end before this have expired. Null for other stores
             */
            earliest_end_ms: number | null;
            /**
             * Earliest Start Ms
             * @description Windows that start before this have expired. Null for sessions and for stores without windows
             */
            earliest_start_ms: number | null;
            index: components["schemas"]["IndexDetail"];
            position: components["schemas"]["Position"];
            /** Store */
            store: string;
            /**
             * Stream Time Ms
             * @description Topic -> partition -> greatest record time seen
             */
            stream_time_ms: {
                [key: string]: {
                    [key: string]: number;
                };
            };
        };
        /**
         * StorePartition
         * @description A partition of a topic that a store reads.
         */
        StorePartition: {
            /** Partition */
            partition: number;
            /**
             * Topic
             * @example orders
             */
            topic: string;
        };
        /**
         * StoreReadiness
         * @description Whether one store is served.
         */
        StoreReadiness: {
            /** Problem */
            problem: string | null;
            /** Ready */
            ready: boolean;
        };
        /**
         * StoreState
         * @description The status of one store. Times are in ms since the epoch.
         */
        StoreState: {
            /**
             * Close Ms
             * @description Every window that ends before this is final. Null before the first batch
             */
            close_ms: number | null;
            /**
             * Counters
             * @description Running totals of records, as in `StoreDetail`
             */
            counters: {
                [key: string]: number;
            };
            /**
             * Files
             * @description Files of the table, its log and the state. Null as for `table_bytes`
             */
            files: number | null;
            /** @description Null if windows wait for no partition */
            held_by: components["schemas"]["HeldBy"] | null;
            /**
             * Idle
             * @description Partitions that windows do not wait for
             */
            idle: components["schemas"]["StorePartition"][];
            /**
             * Lag
             * @description As in `PipelineStatus`, for this store
             */
            lag: number | null;
            /**
             * Lag Ms
             * @description As in `PipelineStatus`, for this store
             */
            lag_ms: number | null;
            /**
             * Open Records
             * @description Rows in the state. Null without a pipeline, and for a token for some keys
             */
            open_records: number | null;
            /**
             * Pipeline
             * @description The pipeline that writes the store. Null if no pipeline has reported it
             */
            pipeline: string | null;
            /**
             * Problem
             * @description Why it does not. Null if it does
             */
            problem: string | null;
            /**
             * Ready
             * @description Whether the service follows the store
             */
            ready: boolean;
            /**
             * State Bytes
             * @description Size of the state. Null for a token for some keys
             */
            state_bytes: number | null;
            /**
             * Store
             * @example revenue
             */
            store: string;
            /**
             * Stream Time Ms
             * @description Greatest stream time of a partition. Null before the first record
             */
            stream_time_ms: number | null;
            /**
             * Table Bytes
             * @description Size of the table and its log, also of removed files. Null with object storage, and for a token for some keys
             */
            table_bytes: number | null;
        };
        /**
         * StoreSummary
         * @description One store in the list.
         */
        StoreSummary: {
            /** Aggregates */
            aggregates: components["schemas"]["Aggregate"][];
            /**
             * Close Ms
             * @description Every window that ends before this is final. Null before the first batch
             */
            close_ms: number | null;
            /**
             * Committed Ms
             * @description When the position's version was committed, in ms since the epoch. Null if its log entry was deleted, or if the table is in an object store
             */
            committed_ms: number | null;
            /**
             * Counters
             * @description Running totals of records, as in the detail. Empty for a token for some keys
             */
            counters: {
                [key: string]: number;
            };
            position: components["schemas"]["Position"] | null;
            /**
             * Problem
             * @description Why the store cannot be queried. Null if it can
             */
            problem: string | null;
            /**
             * Ready
             * @description Whether the store can be queried now
             */
            ready: boolean;
            /** Store */
            store: string;
            /**
             * Stream Time Ms
             * @description Topic -> partition -> greatest record time seen
             */
            stream_time_ms: {
                [key: string]: {
                    [key: string]: number;
                };
            };
            window: components["schemas"]["WindowKind"] | null;
            /**
             * Windows
             * @description Windows or rows in the index, including expired ones until they are deleted. Null for a token for some keys
             */
            windows: number | null;
        };
        /**
         * StoresAnswer
         * @description All stores.
         */
        StoresAnswer: {
            /** Stores */
            stores: components["schemas"]["StoreSummary"][];
        };
        /**
         * Topologies
         * @description The topologies of the pipelines.
         */
        Topologies: {
            /** Pipelines */
            pipelines: components["schemas"]["PipelineTopology"][];
        };
        /**
         * TopologyArrow
         * @description Records that flow from one node to another.
         */
        TopologyArrow: {
            /**
             * Source
             * @description `id` of the first node
             * @example topic0
             */
            source: string;
            /**
             * Steps
             * @description Calls between the nodes
             */
            steps: string[];
            /**
             * Target
             * @description `id` of the second node
             * @example store0
             */
            target: string;
        };
        /**
         * TopologyNode
         * @description A topic, join, store or sink of a topology.
         */
        TopologyNode: {
            /**
             * Id
             * @description Identifies the node within its topology
             * @example store0
             */
            id: string;
            /**
             * Kind
             * @description `sink` is an output topic. `join` is also an aggregation without a store
             * @enum {string}
             */
            kind: "topic" | "join" | "store" | "sink";
            /**
             * Lines
             * @description Windows and steps of a store
             */
            lines: string[];
            /**
             * Name
             * @description Name of the topic or store, or the call of the join
             * @example departures
             */
            name: string;
        };
        /**
         * Window
         * @description One window of one key, with one more field per aggregate of the store.
         *
         *     An aggregate is a number, string, boolean, array of such values, or null. NaN and infinities
         *     are null, because JSON does not have them. 64-bit integers keep all digits.
         */
        Window: {
            /**
             * Final
             * @description True if no record can change the window. Every partition's stream time minus grace has passed its end
             */
            final: boolean;
            /**
             * Key
             * @example EWR
             */
            key: string;
            /**
             * Timestamp Ms
             * @description Greatest record time in the window. For a session, its end (KIP-259)
             */
            timestamp_ms: number;
            /**
             * Window End Ms
             * @description End in ms since the epoch. It is inclusive for sliding windows (KIP-450) and for sessions, where it is the time of the last record. It is exclusive for tumbling and hopping windows
             */
            window_end_ms: number;
            /**
             * Window Start Ms
             * @description Start, inclusive, in ms since the epoch
             */
            window_start_ms: number;
        } & {
            [key: string]: unknown;
        };
        /**
         * WindowKind
         * @description The window kind and its parameters.
         */
        WindowKind: {
            /**
             * Advance Ms
             * @description Advance of hopping windows in ms. Null for other kinds
             */
            advance_ms: number | null;
            /**
             * Grace Ms
             * @description Grace of the windows in ms: how late a record can be
             */
            grace_ms: number;
            /**
             * Kind
             * @description tumbling, hopping, sliding, session, or none for a store with one row per key
             * @example sliding
             */
            kind: string;
            /**
             * Size Ms
             * @description Size of tumbling and hopping windows, time difference of sliding windows, or inactivity gap of sessions, in ms. 0 without windows
             */
            size_ms: number;
        };
        /**
         * WindowsAnswer
         * @description Windows from one table version.
         */
        WindowsAnswer: {
            /**
             * Next Cursor
             * @description Send it as `cursor` to read the next page. Null on the last page
             */
            next_cursor: string | null;
            position: components["schemas"]["Position"];
            /**
             * Store
             * @example departures
             */
            store: string;
            /** Windows */
            windows: components["schemas"]["Window"][] | components["schemas"]["IsoWindow"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    dashboard: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Text */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    docs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Text */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    freshness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Freshness"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Text */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listLabelValues: {
        parameters: {
            query?: {
                /**
                 * @description A selector. Can be repeated. Default: all series.
                 * @example [
                 *       "departures_departures"
                 *     ]
                 */
                "match[]"?: string[];
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                start?: string;
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                end?: string;
                /** @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning. */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description Name of a label.
                 * @example key
                 */
                label: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamesResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listLabels: {
        parameters: {
            query?: {
                /**
                 * @description A selector. Can be repeated. Default: all series.
                 * @example [
                 *       "departures_departures"
                 *     ]
                 */
                "match[]"?: string[];
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                start?: string;
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                end?: string;
                /** @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamesResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listLabelsByForm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-www-form-urlencoded": {
                    /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                    end?: string;
                    /**
                     * @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning.
                     * @default 0
                     */
                    limit?: number;
                    /** @description A selector. Can be repeated. Default: all series. */
                    "match[]"?: string[];
                    /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                    start?: string;
                };
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamesResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listMetrics: {
        parameters: {
            query?: {
                /**
                 * @description The name of a metric. Default: all metrics.
                 * @example departures_departures
                 */
                metric?: string;
                /** @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetadataResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    queryWindows: {
        parameters: {
            query: {
                /**
                 * @description A PromQL expression. It can have selectors, `offset`, arithmetic, comparisons, and functions of one number. Its aggregations can be `sum`, `avg`, `min`, `max`, `count`, `group`, `topk` and `bottomk`. Functions of ranges such as `rate` are rejected.
                 * @example topk(3, departures_departures)
                 */
                query: string;
                /**
                 * @description The time in seconds since the epoch, or as RFC 3339. Default: now.
                 * @example 1357036200
                 */
                time?: string;
                /** @description How long a value is valid after the end of its window. Default: until the next window can end. This is the size of tumbling windows, the advance of hopping windows, and the gap of sessions. A sliding window is valid until its newest record leaves it. */
                lookback_delta?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    queryWindowsByForm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-www-form-urlencoded": {
                    /** @description How long a value is valid after the end of its window. Default: until the next window can end. This is the size of tumbling windows, the advance of hopping windows, and the gap of sessions. A sliding window is valid until its newest record leaves it. */
                    lookback_delta?: string;
                    /** @description A PromQL expression. It can have selectors, `offset`, arithmetic, comparisons, and functions of one number. Its aggregations can be `sum`, `avg`, `min`, `max`, `count`, `group`, `topk` and `bottomk`. Functions of ranges such as `rate` are rejected. */
                    query: string;
                    /** @description The time in seconds since the epoch, or as RFC 3339. Default: now. */
                    time?: string;
                };
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    queryWindowRange: {
        parameters: {
            query: {
                /**
                 * @description A PromQL expression. It can have selectors, `offset`, arithmetic, comparisons, and functions of one number. Its aggregations can be `sum`, `avg`, `min`, `max`, `count`, `group`, `topk` and `bottomk`. Functions of ranges such as `rate` are rejected.
                 * @example topk(3, departures_departures)
                 */
                query: string;
                /**
                 * @description First time in seconds since the epoch, or as RFC 3339.
                 * @example 1357036200
                 */
                start: string;
                /**
                 * @description Last time in seconds since the epoch, or as RFC 3339, inclusive.
                 * @example 1357038000
                 */
                end: string;
                /**
                 * @description Time between two values in seconds, or as a duration, for example `15s` or `1m30s`.
                 * @example 30m
                 */
                step: string;
                /** @description How long a value is valid after the end of its window. Default: until the next window can end. This is the size of tumbling windows, the advance of hopping windows, and the gap of sessions. A sliding window is valid until its newest record leaves it. */
                lookback_delta?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    queryWindowRangeByForm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-www-form-urlencoded": {
                    /** @description Last time in seconds since the epoch, or as RFC 3339, inclusive. */
                    end: string;
                    /** @description How long a value is valid after the end of its window. Default: until the next window can end. This is the size of tumbling windows, the advance of hopping windows, and the gap of sessions. A sliding window is valid until its newest record leaves it. */
                    lookback_delta?: string;
                    /** @description A PromQL expression. It can have selectors, `offset`, arithmetic, comparisons, and functions of one number. Its aggregations can be `sum`, `avg`, `min`, `max`, `count`, `group`, `topk` and `bottomk`. Functions of ranges such as `rate` are rejected. */
                    query: string;
                    /** @description First time in seconds since the epoch, or as RFC 3339. */
                    start: string;
                    /** @description Time between two values in seconds, or as a duration, for example `15s` or `1m30s`. */
                    step: string;
                };
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    findSeries: {
        parameters: {
            query: {
                /**
                 * @description A selector. Can be repeated.
                 * @example [
                 *       "departures_departures"
                 *     ]
                 */
                "match[]": string[];
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                start?: string;
                /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                end?: string;
                /** @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    findSeriesByForm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-www-form-urlencoded": {
                    /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                    end?: string;
                    /**
                     * @description Maximum number of items. 0 and greater numbers mean 10,000. If more items exist, the response has a warning.
                     * @default 0
                     */
                    limit?: number;
                    /** @description A selector. Can be repeated. */
                    "match[]": string[];
                    /** @description A time in seconds since the epoch, or as RFC 3339, which has no effect. */
                    start?: string;
                };
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    showBuild: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BuildResponse"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listDeadLetters: {
        parameters: {
            query?: {
                /** @description Only records of this topic. */
                topic?: string;
                /** @description Only records of this partition. */
                partition?: number;
                /** @description Least offset, inclusive. */
                from_offset?: number;
                /** @description Greatest offset, inclusive. */
                to_offset?: number;
                /** @description Only records that this store, but not every store, could not use. */
                store?: string;
                /** @description Only dead letters with this reason, for example not-json. */
                reason?: string;
                /** @description `true` selects dead letters whose record was replayed, `false` the others. Default: both. */
                replayed?: boolean;
                /** @description Least time of a record, inclusive. Records with an unknown time are left out. */
                from_ms?: number | string;
                /** @description Greatest time of a record, inclusive. Records with an unknown time are left out. */
                to_ms?: number | string;
                /** @description Order of the dead letters. `newest`: from the newest batch to the oldest, then by topic, partition and offset in descending order. `oldest`: exactly the reverse order. */
                order?: "newest" | "oldest";
                /** @description Maximum number of items of one page. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLettersAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    countDeadLetters: {
        parameters: {
            query?: {
                /** @description Only records of this topic. */
                topic?: string;
                /** @description Only records of this partition. */
                partition?: number;
                /** @description Least offset, inclusive. */
                from_offset?: number;
                /** @description Greatest offset, inclusive. */
                to_offset?: number;
                /** @description Only records that this store, but not every store, could not use. */
                store?: string;
                /** @description Only dead letters with this reason, for example not-json. */
                reason?: string;
                /** @description `true` selects dead letters whose record was replayed, `false` the others. Default: both. */
                replayed?: boolean;
                /** @description Least time of a record, inclusive. Records with an unknown time are left out. */
                from_ms?: number | string;
                /** @description Greatest time of a record, inclusive. Records with an unknown time are left out. */
                to_ms?: number | string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterCountsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sql: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description The query */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "query": "SELECT key, sum(departures) FROM departures GROUP BY key"
                 *     }
                 */
                "application/json": {
                    query: string;
                };
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SqlRows"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listStores: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoresAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    describeStore: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoreDetail"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    all: {
        parameters: {
            query?: {
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    approximateNumEntries: {
        parameters: {
            query?: {
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CountAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardAll: {
        parameters: {
            query?: {
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFetch: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFetchAll: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFetchOfKeys: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFetchRange: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFindSessions: {
        parameters: {
            query?: {
                /**
                 * @description Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357034400000
                 */
                earliest_end_ms?: number | string;
                /**
                 * @description Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is negative, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                latest_start_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    backwardFindSessionsRange: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /**
                 * @description Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357034400000
                 */
                earliest_end_ms?: number | string;
                /**
                 * @description Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is negative, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                latest_start_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changes: {
        parameters: {
            query?: {
                /**
                 * @description List the changes after this version: `through_version` of the previous response, or the `version` of the position from which you read the store. Default: the newest version, which returns a version to begin with.
                 * @example 17
                 */
                since_version?: number;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
                /** @description Maximum number of items of one page. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    covering: {
        parameters: {
            query?: {
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description An instant in ms since the epoch or as ISO 8601.
                 * @example 1357036140000
                 */
                instant_ms: number | string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    current: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    currentAll: {
        parameters: {
            query?: {
                /** @description List only keys with this prefix. For composite keys, a prefix contains whole components and ends with a comma. A store of 64-bit integers accepts no prefix. */
                prefix?: string;
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    currentOfKeys: {
        parameters: {
            query?: {
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetch: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetchAll: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetchOfKeys: {
        parameters: {
            query?: {
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetchRange: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /**
                 * @description Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than from_ms, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetchSession: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description Start of the window in ms since the epoch or as ISO 8601.
                 * @example 1357034400000
                 */
                window_start_ms: number | string;
                /**
                 * @description End of the session in ms since the epoch or as ISO 8601, inclusive.
                 * @example 1357036140000
                 */
                window_end_ms: number | string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    findSessions: {
        parameters: {
            query?: {
                /**
                 * @description Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357034400000
                 */
                earliest_end_ms?: number | string;
                /**
                 * @description Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is negative, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                latest_start_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    findSessionsRange: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /**
                 * @description Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357034400000
                 */
                earliest_end_ms?: number | string;
                /**
                 * @description Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is negative, the list is empty. Default: no bound.
                 * @example 1357038000000
                 */
                latest_start_ms?: number | string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getOfKeys: {
        parameters: {
            query?: {
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listKeys: {
        parameters: {
            query?: {
                /** @description List only keys with this prefix. For composite keys, a prefix contains whole components and ends with a comma. A store of 64-bit integers accepts no prefix. */
                prefix?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeysAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    latest: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    latestAll: {
        parameters: {
            query?: {
                /** @description List only keys with this prefix. For composite keys, a prefix contains whole components and ends with a comma. A store of 64-bit integers accepts no prefix. */
                prefix?: string;
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    latestOfKeys: {
        parameters: {
            query?: {
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    merged: {
        parameters: {
            query?: {
                /**
                 * @description Least start of a range in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest start of a range in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /**
                 * @description Length of a range in ms, a multiple of the size of the store's windows. Ranges start at multiples of it since the epoch, as tumbling windows of this size. Default: the size of the windows.
                 * @example 3600000
                 */
                step_ms?: number;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /**
                 * @description Names of the aggregates to merge, separated by commas. They must be `count`, `sum`, `min` or `max`. Default: all aggregates of the store, which must all be such.
                 * @example departures
                 */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    mergedAll: {
        parameters: {
            query?: {
                /** @description List only keys with this prefix. For composite keys, a prefix contains whole components and ends with a comma. A store of 64-bit integers accepts no prefix. */
                prefix?: string;
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /**
                 * @description Least start of a range in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest start of a range in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /**
                 * @description Length of a range in ms, a multiple of the size of the store's windows. Ranges start at multiples of it since the epoch, as tumbling windows of this size. Default: the size of the windows.
                 * @example 3600000
                 */
                step_ms?: number;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /**
                 * @description Names of the aggregates to merge, separated by commas. They must be `count`, `sum`, `min` or `max`. Default: all aggregates of the store, which must all be such.
                 * @example departures
                 */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    mergedOfKeys: {
        parameters: {
            query?: {
                /**
                 * @description Least start of a range in ms since the epoch or as ISO 8601, inclusive. A negative value counts as 0. Default: no bound.
                 * @example 1357034400000
                 */
                from_ms?: number | string;
                /**
                 * @description Greatest start of a range in ms since the epoch or as ISO 8601, inclusive. Default: no bound.
                 * @example 1357038000000
                 */
                to_ms?: number | string;
                /**
                 * @description Length of a range in ms, a multiple of the size of the store's windows. Ranges start at multiples of it since the epoch, as tumbling windows of this size. Default: the size of the windows.
                 * @example 3600000
                 */
                step_ms?: number;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description `true` selects final windows, which no record can change. `false` selects windows that a record can still change. Default: both. */
                final?: boolean;
                /**
                 * @description Names of the aggregates to merge, separated by commas. They must be `count`, `sum`, `min` or `max`. Default: all aggregates of the store, which must all be such.
                 * @example departures
                 */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        /** @description The keys */
        requestBody: {
            content: {
                /**
                 * @example [
                 *       "EWR",
                 *       "JFK"
                 *     ]
                 */
                "application/json": string[];
            };
        };
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    prefixScan: {
        parameters: {
            query?: {
                /** @description List only keys with this prefix. For composite keys, a prefix contains whole components and ends with a comma. A store of 64-bit integers accepts no prefix. */
                prefix?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    range: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    reverseAll: {
        parameters: {
            query?: {
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    reverseRange: {
        parameters: {
            query?: {
                /**
                 * @description Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. Default: no bound.
                 * @example E
                 */
                key_from?: string;
                /**
                 * @description Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If it is less than key_from, the list is empty. Default: no bound.
                 * @example F
                 */
                key_to?: string;
                /** @description Maximum number of items of one page. A page can contain fewer items, or none, although more items follow. See `x-oriel-limits`. */
                limit?: number;
                /** @description `next_cursor` of your previous page, an opaque string. All other parameters except `limit` must be unchanged. Each page is read from the newest version at that time, never from an older one. If the `position` of two pages differs, the store changed between them. */
                cursor?: string;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Select the items for which this condition is true, an expression of Spark SQL over the fields of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.
                 * @example departures > 10
                 */
                where?: string;
                /**
                 * @description Order the items by these fields, separated by commas. A minus before a field is the descending order. Items with equal values are ordered by key, start and end. The service reads all items for each page, at most 2,000,000. Default: the order of the operation.
                 * @example -departures
                 */
                order_by?: string;
                /**
                 * @description With `order_by`: return only this many items, in one page without a cursor. Then `limit` has no effect.
                 * @example 10
                 */
                top?: number;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    session: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description Start of the window in ms since the epoch or as ISO 8601.
                 * @example 1357034400000
                 */
                window_start_ms: number | string;
                /**
                 * @description End of the session in ms since the epoch or as ISO 8601, inclusive.
                 * @example 1357036140000
                 */
                window_end_ms: number | string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    watch: {
        parameters: {
            query?: {
                /**
                 * @description A key to watch. Can be repeated. Default: all keys.
                 * @example [
                 *       "EWR"
                 *     ]
                 */
                key?: string[];
                /** @description `true` selects the current window of each key that changed, as `current` returns it. An event has at most one window per key. `removed` has the keys without a window, and `changed_from_ms` is the least start of the windows that changed. */
                current?: boolean;
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /**
                 * @description Send the changes after this point: the `id` of an event, or `VERSION-HISTORY` of the `position` of a response. Without the history, a restore since that response is not noticed. A header `Last-Event-ID`, which browsers send, has priority. Default: changes from now on.
                 * @example 17
                 */
                after?: string;
                /**
                 * @description End the stream after this many ms. Default: no end.
                 * @example 1000
                 */
                for_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Text */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        data?: string;
                        /** @enum {string} */
                        event?: "position" | "change" | "reset" | "denied";
                        id?: string;
                    };
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    window: {
        parameters: {
            query?: {
                /** @description Names of the aggregates that you need, separated by commas. Items have only these, their key, their times and `final`. Default: all aggregates. */
                columns?: string;
                /** @description Format of window times. `ms`: integers since the epoch in `window_start_ms`, `window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` and `timestamp`. Arrow always has timestamps with the names of `iso`. */
                times?: "ms" | "iso";
                /**
                 * @description Least table version of the response. For monotonic reads, send the `version` of the previous response.
                 * @example 17
                 */
                min_version?: number;
                /**
                 * @description TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this partition below this offset. To read your writes, send the size of the event log's file after the append.
                 * @example [
                 *       "flights:0:12345"
                 *     ]
                 */
                min_offset?: string[];
                /** @description Maximum time to wait for the requested position, in ms. After that, the status code is 503. */
                wait_ms?: number;
                /**
                 * @description Read this version of the store's table, regardless of the state of the index, while Delta still has it. You cannot combine it with the parameters of the position. A table read is limited to 10 s and 128 MiB of rows. A process accepts at most 16 table reads at a time.
                 * @example 17
                 */
                as_of_version?: number;
                /**
                 * @description Read the newest version that was committed at or before this wall-clock time, in ms since the epoch. The limits are those of `as_of_version`.
                 * @example 1357038000000
                 */
                as_of_ms?: number | string;
                /**
                 * @description `history` of the position that the version in this request is from. If a restore replaced this version by another, the status code is 410. Then read the store again.
                 * @example 1a2b3c4d-99aabbcc
                 */
                history?: string;
            };
            header?: {
                /** @description `ETag` of your previous response. If the response is unchanged, the status code is 304. */
                "If-None-Match"?: string;
            };
            path: {
                /**
                 * @description Name of the store.
                 * @example departures
                 */
                store: string;
                /**
                 * @description Start of the window in ms since the epoch or as ISO 8601.
                 * @example 1357034400000
                 */
                window_start_ms: number | string;
                /**
                 * @description The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, write a JSON array without spaces. See the store's `key_type`.
                 * @example EWR
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response, from one table version */
            200: {
                headers: {
                    /** @description `immutable` if no record can change the response. Otherwise `no-cache`: request it again with If-None-Match */
                    "Cache-Control"?: string;
                    /** @description Changes if the windows or rows of the response change, regardless of the position. Send it as If-None-Match */
                    ETag?: string;
                    /** @description `position.history` */
                    "Oriel-History"?: string;
                    /** @description Lag of the response to the store's table: the number of versions, and the ms since the first missing version was committed. The ms are negative if the wall clock of the pipeline is ahead */
                    "Oriel-Lag"?: string;
                    /** @description `position.version` */
                    "Oriel-Version"?: number;
                    /** @description `Accept` and `Accept-Encoding`, which select the response format and coding */
                    Vary?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowsAnswer"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    topology: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topologies"];
                };
            };
            /** @description A problem */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}

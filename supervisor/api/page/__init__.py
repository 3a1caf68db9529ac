"""Is the page of the API: what a browser shows of the cluster, with the documents of the API.

``static`` has the page, as it is served: one file of HTML, one of CSS, and modules of JavaScript that are written by
hand and need no build. ``files`` reads them once and answers requests for them. They hold no data, so they need no token;
what they show they ask the API for, with the token that a person types in.

Names, reasons and output of jobs are hostile. So the modules make every element themselves and put in text only
(``dom.js``), and the headers of ``files`` let a browser run nothing but these modules, and ask nobody but this server.
"""

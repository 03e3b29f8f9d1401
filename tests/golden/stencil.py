def kernel(args, lo, hi):
    # subtract: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    c4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    x1 = buffer(args, 7, float64)
    x2 = buffer(args, 8, float64)
    b9 = integer(args, 9)
    c10 = integer(args, 10)
    b11 = integer(args, 11)
    b12 = integer(args, 12)
    b13 = integer(args, 13)
    b14 = integer(args, 14)
    c15 = integer(args, 15)
    s16 = integer(args, 16)
    b17 = integer(args, 17)
    c18 = integer(args, 18)
    s19 = integer(args, 19)
    v5 = float64(0.0)
    v7 = x1[0]
    v32 = int64(0)
    v36 = float64(0.0)
    v47 = x1[0]
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v0 = x0[i0 * s3 + i1 + c4]
                v1 = x0[i0 * s3 + i1 + c5]
                v2 = v0 + v1
                v3 = x0[i0 * s3 + i1 + c6]
                v4 = v2 + v3
                v6 = v4 + v5
                v8 = x0[i0 * s3 + i1]
                v9 = v7 * v8
                v10 = v6 - v9
                x2[i0 * s3 + i1] = v10
            for i1 in range(max(first, b9), min(last, b11)):
                v11 = x0[i0 * s3 + i1 + c4]
                v12 = x0[i0 * s3 + i1 + c5]
                v13 = v11 + v12
                v14 = x0[i0 * s3 + i1 + c6]
                v15 = v13 + v14
                v16 = x0[i0 * s3 + i1 + c10]
                v17 = v15 + v16
                v18 = x0[i0 * s3 + i1]
                v19 = v7 * v18
                v20 = v17 - v19
                x2[i0 * s3 + i1] = v20
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v21 = x0[i0 * s3 + i1 + c4]
                v22 = x0[i0 * s3 + i1 + c5]
                v23 = v21 + v22
                v24 = v23 + v5
                v25 = x0[i0 * s3 + i1 + c10]
                v26 = v24 + v25
                v27 = x0[i0 * s3 + i1]
                v28 = v7 * v27
                v29 = v26 - v28
                x2[i0 * s3 + i1] = v29
        else:
            v30 = int64(i0)
            v31 = (b14 <= v30) & (v30 < b13)
            v33 = int64(i0 + c15)
            v34 = select(v31, v33, v32)
            v38 = (b12 <= v30) & (v30 < b17)
            v39 = int64(i0 + c18)
            v40 = select(v38, v39, v32)
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v35 = x0[v34 * s16 + i1]
                v37 = select(v31, v35, v36)
                v41 = x0[v40 * s19 + i1]
                v42 = select(v38, v41, v36)
                v43 = v37 + v42
                v44 = x0[i0 * s3 + i1 + c6]
                v45 = v43 + v44
                v46 = v45 + v36
                v48 = x0[i0 * s3 + i1]
                v49 = v47 * v48
                v50 = v46 - v49
                x2[i0 * s3 + i1] = v50
            for i1 in range(max(first, b9), min(last, b11)):
                v51 = x0[v34 * s16 + i1]
                v52 = select(v31, v51, v36)
                v53 = x0[v40 * s19 + i1]
                v54 = select(v38, v53, v36)
                v55 = v52 + v54
                v56 = x0[i0 * s3 + i1 + c6]
                v57 = v55 + v56
                v58 = x0[i0 * s3 + i1 + c10]
                v59 = v57 + v58
                v60 = x0[i0 * s3 + i1]
                v61 = v47 * v60
                v62 = v59 - v61
                x2[i0 * s3 + i1] = v62
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v63 = x0[v34 * s16 + i1]
                v64 = select(v31, v63, v36)
                v65 = x0[v40 * s19 + i1]
                v66 = select(v38, v65, v36)
                v67 = v64 + v66
                v68 = v67 + v36
                v69 = x0[i0 * s3 + i1 + c10]
                v70 = v68 + v69
                v71 = x0[i0 * s3 + i1]
                v72 = v47 * v71
                v73 = v70 - v72
                x2[i0 * s3 + i1] = v73

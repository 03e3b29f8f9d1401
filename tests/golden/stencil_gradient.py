def kernel(args, lo, hi):
    # multiply: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    x1 = buffer(args, 3, float64)
    s4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    c7 = integer(args, 7)
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
    v0 = x0[0]
    v7 = float64(0.0)
    v10 = float64(2.0)
    v31 = x0[0]
    v35 = int64(0)
    v39 = float64(0.0)
    v51 = float64(2.0)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v1 = x1[i0 * s4 + i1]
                v2 = x1[i0 * s4 + i1 + c5]
                v3 = x1[i0 * s4 + i1 + c6]
                v4 = v2 + v3
                v5 = x1[i0 * s4 + i1 + c7]
                v6 = v4 + v5
                v8 = v6 + v7
                v9 = v8 - v0 * v1
                v11 = v9 * v10
                x2[i0 * s4 + i1] = v11
            for i1 in range(max(first, b9), min(last, b11)):
                v12 = x1[i0 * s4 + i1]
                v13 = x1[i0 * s4 + i1 + c5]
                v14 = x1[i0 * s4 + i1 + c6]
                v15 = v13 + v14
                v16 = x1[i0 * s4 + i1 + c7]
                v17 = v15 + v16
                v18 = x1[i0 * s4 + i1 + c10]
                v19 = v17 + v18
                v20 = v19 - v0 * v12
                v21 = v20 * v10
                x2[i0 * s4 + i1] = v21
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v22 = x1[i0 * s4 + i1]
                v23 = x1[i0 * s4 + i1 + c5]
                v24 = x1[i0 * s4 + i1 + c6]
                v25 = v23 + v24
                v26 = v25 + v7
                v27 = x1[i0 * s4 + i1 + c10]
                v28 = v26 + v27
                v29 = v28 - v0 * v22
                v30 = v29 * v10
                x2[i0 * s4 + i1] = v30
        else:
            v33 = int64(i0)
            v34 = (b14 <= v33) & (v33 < b13)
            v36 = int64(i0 + c15)
            v37 = select(v34, v36, v35)
            v41 = (b12 <= v33) & (v33 < b17)
            v42 = int64(i0 + c18)
            v43 = select(v41, v42, v35)
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v32 = x1[i0 * s4 + i1]
                v38 = x1[v37 * s16 + i1]
                v40 = select(v34, v38, v39)
                v44 = x1[v43 * s19 + i1]
                v45 = select(v41, v44, v39)
                v46 = v40 + v45
                v47 = x1[i0 * s4 + i1 + c7]
                v48 = v46 + v47
                v49 = v48 + v39
                v50 = v49 - v31 * v32
                v52 = v50 * v51
                x2[i0 * s4 + i1] = v52
            for i1 in range(max(first, b9), min(last, b11)):
                v53 = x1[i0 * s4 + i1]
                v54 = x1[v37 * s16 + i1]
                v55 = select(v34, v54, v39)
                v56 = x1[v43 * s19 + i1]
                v57 = select(v41, v56, v39)
                v58 = v55 + v57
                v59 = x1[i0 * s4 + i1 + c7]
                v60 = v58 + v59
                v61 = x1[i0 * s4 + i1 + c10]
                v62 = v60 + v61
                v63 = v62 - v31 * v53
                v64 = v63 * v51
                x2[i0 * s4 + i1] = v64
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v65 = x1[i0 * s4 + i1]
                v66 = x1[v37 * s16 + i1]
                v67 = select(v34, v66, v39)
                v68 = x1[v43 * s19 + i1]
                v69 = select(v41, v68, v39)
                v70 = v67 + v69
                v71 = v70 + v39
                v72 = x1[i0 * s4 + i1 + c10]
                v73 = v71 + v72
                v74 = v73 - v31 * v65
                v75 = v74 * v51
                x2[i0 * s4 + i1] = v75


def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    c7 = integer(args, 7)
    x2 = buffer(args, 8, float64)
    b9 = integer(args, 9)
    c10 = integer(args, 10)
    b11 = integer(args, 11)
    b12 = integer(args, 12)
    b13 = integer(args, 13)
    c14 = integer(args, 14)
    s15 = integer(args, 15)
    c16 = integer(args, 16)
    s17 = integer(args, 17)
    v2 = x1[0]
    v29 = x1[0]
    v32 = int64(0)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v0 = x0[i0 * s3 + i1]
                v1 = -v0
                v3 = x0[i0 * s3 + i1 + c5]
                v4 = x0[i0 * s3 + i1 + c6]
                v5 = v3 + v4
                v6 = x0[i0 * s3 + i1 + c7]
                v7 = v5 + v6
                v8 = v1 * v2 + v7
                x2[i0 * s3 + i1] = v8
            for i1 in range(max(first, b9), min(last, b11)):
                v9 = x0[i0 * s3 + i1]
                v10 = -v9
                v11 = x0[i0 * s3 + i1 + c5]
                v12 = x0[i0 * s3 + i1 + c10]
                v13 = v11 + v12
                v14 = x0[i0 * s3 + i1 + c6]
                v15 = v13 + v14
                v16 = x0[i0 * s3 + i1 + c7]
                v17 = v15 + v16
                v18 = v10 * v2 + v17
                x2[i0 * s3 + i1] = v18
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v19 = x0[i0 * s3 + i1]
                v20 = -v19
                v21 = x0[i0 * s3 + i1 + c10]
                v22 = x0[i0 * s3 + i1 + c6]
                v23 = v21 + v22
                v24 = x0[i0 * s3 + i1 + c7]
                v25 = v23 + v24
                v26 = v20 * v2 + v25
                x2[i0 * s3 + i1] = v26
        else:
            v30 = int64(i0)
            v31 = (b12 <= v30) & (v30 < n0)
            v33 = int64(i0 + c14)
            v34 = select(v31, v33, v32)
            v35 = (0 <= v30) & (v30 < b13)
            v36 = select(v35, v30, v32)
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v27 = x0[i0 * s3 + i1]
                v28 = -v27
                v37 = x0[i0 * s3 + i1 + c5]
                v38 = x0[v36 * s15 + i1 + c16]
                v39 = v37 + v38
                v40 = select(v35, v39, v37)
                v41 = x0[v34 * s17 + i1]
                v42 = v40 + v41
                v43 = select(v31, v42, v40)
                v44 = v28 * v29 + v43
                x2[i0 * s3 + i1] = v44
            for i1 in range(max(first, b9), min(last, b11)):
                v45 = x0[i0 * s3 + i1]
                v46 = -v45
                v47 = x0[i0 * s3 + i1 + c5]
                v48 = x0[i0 * s3 + i1 + c10]
                v49 = v47 + v48
                v50 = x0[v36 * s15 + i1 + c16]
                v51 = v49 + v50
                v52 = select(v35, v51, v49)
                v53 = x0[v34 * s17 + i1]
                v54 = v52 + v53
                v55 = select(v31, v54, v52)
                v56 = v46 * v29 + v55
                x2[i0 * s3 + i1] = v56
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v57 = x0[i0 * s3 + i1]
                v58 = -v57
                v59 = x0[i0 * s3 + i1 + c10]
                v60 = x0[v36 * s15 + i1 + c16]
                v61 = v59 + v60
                v62 = select(v35, v61, v59)
                v63 = x0[v34 * s17 + i1]
                v64 = v62 + v63
                v65 = select(v31, v64, v62)
                v66 = v58 * v29 + v65
                x2[i0 * s3 + i1] = v66
